//! The formats of logs that are recognised by the form of their lines.
//!
//! A line that is no JSON object and no access log is compared with each of them, in their order.

use std::sync::{Arc, LazyLock};

use super::notation;
use super::template::Template;

/// Their names, and their lines in nginx's notation.
const KNOWN: [(&str, &str); 5] = [
    (
        "AWS load balancer",
        "$type $time_iso8601 $elb $remote_addr $target $request_time $target_time $response_time $status \
         $target_status $received $sent \"$request\" \"$http_user_agent\"",
    ),
    (
        "AWS classic load balancer",
        "$time_iso8601 $elb $remote_addr $target $request_time $target_time $response_time $status \
         $target_status $received $sent \"$request\" \"$http_user_agent\"",
    ),
    (
        "HAProxy",
        "$remote_addr [$time_local] $frontend $backend/$server $timers $status $bytes $request_cookie \
         $response_cookie $termination $connections $queues \"$request\"",
    ),
    (
        "Istio",
        "[$time_iso8601] \"$request\" $status $flags $details $termination \"$failure\" $received $sent \
         $duration $upstream_time \"$http_x_forwarded_for\" \"$http_user_agent\" \"$request_id\" \
         \"$authority\" \"$upstream\" $cluster $upstream_local $local $remote_addr $sni $route",
    ),
    (
        "Envoy",
        "[$time_iso8601] \"$request\" $status $flags $received $sent $duration $upstream_time \
         \"$http_x_forwarded_for\" \"$http_user_agent\" \"$request_id\" \"$authority\" \"$upstream\"",
    ),
];

static TEMPLATES: LazyLock<Vec<Arc<Template>>> = LazyLock::new(|| {
    let templates = KNOWN.iter().filter_map(|(name, text)| notation::template(name, text).ok());
    templates.map(Arc::new).collect()
});

/// All templates. A line of Istio would also fit the shorter template of Envoy, which therefore comes last.
pub(super) fn templates() -> &'static [Arc<Template>] {
    &TEMPLATES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_format_is_one_in_its_notation() {
        for (name, text) in KNOWN {
            notation::template(name, text).unwrap();
        }
    }
}
