//! The cases: a listener, its generator, and the programs that are asked the same.

use super::asking::Listener;
use super::generators::Pipeline;

/// The arrival of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Commands of RESP.
    Resp(Pipeline),
    /// `POST /v1/check` over HTTP/1.1.
    Http,
    /// Envoy's rate limit service over HTTP/2, so many streams at once on each connection.
    Grpc {
        /// The number of streams.
        streams: u32,
    },
}

/// A program that answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The server, its limiters in memory; over RESP it is asked `CL.THROTTLE`.
    Tidegate,
    /// The same, asked `TG.CHECK` under a configured rule.
    TidegateChecks,
    /// A build without statistics, metrics of rules, the tail and top keys; over RESP it is asked `TG.CHECK`.
    TidegateUnwatched,
    /// The server, its limiters in a redis-server of its own.
    TidegateOnRedis,
    /// redis-server, asked `SET`.
    RedisSet,
    /// redis-server, asked `INCR`.
    RedisIncr,
    /// A `recv` and a `send` for each request, and nothing else; only where requests come one by one.
    Floor,
    /// nginx, which answers 204 and nothing else.
    Nginx,
    /// A service of tonic that reads the request and says yes.
    Tonic,
}

/// The rate at which requests come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// As fast as they are answered.
    Highest,
    /// At half of the highest rate, however long answers take, evenly apart.
    Half,
    /// At that rate as h2load keeps it: at each tick of a connection, of 10 ms, all due requests at once.
    HalfInTicks,
}

/// One listener, one way of asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// Its name.
    pub name: &'static str,
    /// The arrival of requests.
    pub way: Way,
    /// The rate at which they come.
    pub pace: Pace,
    /// The programs that answer; the others are compared with the last.
    pub subjects: &'static [Subject],
}

use Pace::{Half, HalfInTicks, Highest};
use Subject::{
    Floor, Nginx, RedisIncr, RedisSet, Tidegate, TidegateChecks, TidegateOnRedis,
    TidegateUnwatched, Tonic,
};
use Way::{Grpc, Http, Resp};

const P1: Way = Resp(Pipeline { depth: 1, generators: 1 });
const P16: Way = Resp(Pipeline { depth: 16, generators: 1 });

/// All cases: as fast as it goes, then at half of that.
pub const ALL: &[Case] = &[
    case(
        "resp p1",
        Resp(Pipeline { depth: 1, generators: 2 }),
        Highest,
        &[Tidegate, TidegateChecks, Floor, RedisIncr, RedisSet],
    ),
    case("resp p1 one generator", P1, Highest, &[Tidegate, Floor, RedisSet]),
    case("resp p16", P16, Highest, &[Tidegate, TidegateChecks, RedisSet, RedisIncr]),
    case("http", Http, Highest, &[Tidegate, Floor, Nginx]),
    case("grpc 1", Grpc { streams: 1 }, Highest, &[Tidegate, Tonic]),
    case("grpc 10", Grpc { streams: 10 }, Highest, &[Tidegate, Tonic]),
    case("grpc redis", Grpc { streams: 10 }, Highest, &[TidegateOnRedis, Tidegate]),
    case("resp p16 watched", P16, Highest, &[TidegateChecks, TidegateUnwatched]),
    case("http watched", Http, Highest, &[Tidegate, TidegateUnwatched]),
    case("grpc 10 watched", Grpc { streams: 10 }, Highest, &[Tidegate, TidegateUnwatched]),
    case("resp half", P1, Half, &[Tidegate, RedisIncr]),
    case("http half", Http, Half, &[Tidegate, Nginx]),
    case("http half h2load", Http, HalfInTicks, &[Tidegate, Nginx]),
    case("grpc half", Grpc { streams: 1 }, Half, &[Tidegate, Tonic]),
    case("grpc half h2load", Grpc { streams: 1 }, HalfInTicks, &[Tidegate, Tonic]),
];

const fn case(name: &'static str, way: Way, pace: Pace, subjects: &'static [Subject]) -> Case {
    Case { name, way, pace, subjects }
}

impl Way {
    /// The listener that is asked.
    pub const fn listener(self) -> Listener {
        match self {
            Resp(_) => Listener::Resp,
            Http => Listener::Http,
            Grpc { .. } => Listener::Grpc,
        }
    }
}

impl Subject {
    /// The command that it is asked over RESP.
    pub const fn command(self) -> &'static [&'static str] {
        match self {
            RedisSet => &["SET", "user:__rand_int__", "xxx"],
            RedisIncr => &["INCR", "user:__rand_int__"],
            TidegateChecks | TidegateUnwatched => {
                &["TG.CHECK", "bench", "user", "user:__rand_int__"]
            }
            _ => &["CL.THROTTLE", "user:__rand_int__", "1000000", "1000000", "3600"],
        }
    }
}

impl Case {
    /// The name of a subject in it.
    pub fn subject_name(&self, subject: Subject) -> &'static str {
        match subject {
            Tidegate if self.subjects.contains(&TidegateOnRedis) => "tidegate, in memory",
            Tidegate | TidegateOnRedis => "tidegate",
            TidegateChecks => "tidegate TG.CHECK",
            TidegateUnwatched => "tidegate unwatched",
            RedisSet => "redis SET",
            RedisIncr => "redis INCR",
            Floor => "floor recv+send",
            Nginx => "nginx 204",
            Tonic => "tonic no-op",
        }
    }

    /// The subject that the others are compared with.
    pub fn base(&self) -> &'static str {
        self.subjects.last().map_or("", |subject| self.subject_name(*subject))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_subject_is_there_twice() {
        let mut names: Vec<String> = ALL
            .iter()
            .flat_map(|case| {
                case.subjects
                    .iter()
                    .map(|subject| format!("{}/{}", case.name, case.subject_name(*subject)))
            })
            .collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
        assert!(names.contains(&"grpc redis/tidegate".to_owned()));
    }
}
