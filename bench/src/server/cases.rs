//! The cases: a listener, its generator, and the programs that are asked the same.

use super::generators::Pipeline;

/// The arrival of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listener {
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
    pub listener: Listener,
    /// The rate at which they come.
    pub pace: Pace,
    /// The programs that answer; the others are compared with the last.
    pub subjects: &'static [Subject],
}

use Subject::{
    Floor, Nginx, RedisIncr, RedisSet, Tidegate, TidegateChecks, TidegateOnRedis,
    TidegateUnwatched, Tonic,
};

/// All cases: as fast as it goes, then at half of that.
pub const ALL: &[Case] = &[
    Case {
        name: "resp p1",
        listener: Listener::Resp(Pipeline { depth: 1, generators: 2 }),
        pace: Pace::Highest,
        subjects: &[Tidegate, TidegateChecks, Floor, RedisIncr, RedisSet],
    },
    Case {
        name: "resp p1 one generator",
        listener: Listener::Resp(Pipeline { depth: 1, generators: 1 }),
        pace: Pace::Highest,
        subjects: &[Tidegate, Floor, RedisSet],
    },
    Case {
        name: "resp p16",
        listener: Listener::Resp(Pipeline { depth: 16, generators: 1 }),
        pace: Pace::Highest,
        subjects: &[Tidegate, TidegateChecks, RedisSet, RedisIncr],
    },
    Case {
        name: "http",
        listener: Listener::Http,
        pace: Pace::Highest,
        subjects: &[Tidegate, Floor, Nginx],
    },
    Case {
        name: "grpc 1",
        listener: Listener::Grpc { streams: 1 },
        pace: Pace::Highest,
        subjects: &[Tidegate, Tonic],
    },
    Case {
        name: "grpc 10",
        listener: Listener::Grpc { streams: 10 },
        pace: Pace::Highest,
        subjects: &[Tidegate, Tonic],
    },
    Case {
        name: "grpc redis",
        listener: Listener::Grpc { streams: 10 },
        pace: Pace::Highest,
        subjects: &[TidegateOnRedis, Tidegate],
    },
    Case {
        name: "resp p16 watched",
        listener: Listener::Resp(Pipeline { depth: 16, generators: 1 }),
        pace: Pace::Highest,
        subjects: &[TidegateChecks, TidegateUnwatched],
    },
    Case {
        name: "http watched",
        listener: Listener::Http,
        pace: Pace::Highest,
        subjects: &[Tidegate, TidegateUnwatched],
    },
    Case {
        name: "grpc 10 watched",
        listener: Listener::Grpc { streams: 10 },
        pace: Pace::Highest,
        subjects: &[Tidegate, TidegateUnwatched],
    },
    Case {
        name: "resp half",
        listener: Listener::Resp(Pipeline { depth: 1, generators: 1 }),
        pace: Pace::Half,
        subjects: &[Tidegate, RedisIncr],
    },
    Case {
        name: "http half",
        listener: Listener::Http,
        pace: Pace::Half,
        subjects: &[Tidegate, Nginx],
    },
    Case {
        name: "http half h2load",
        listener: Listener::Http,
        pace: Pace::HalfInTicks,
        subjects: &[Tidegate, Nginx],
    },
    Case {
        name: "grpc half",
        listener: Listener::Grpc { streams: 1 },
        pace: Pace::Half,
        subjects: &[Tidegate, Tonic],
    },
    Case {
        name: "grpc half h2load",
        listener: Listener::Grpc { streams: 1 },
        pace: Pace::HalfInTicks,
        subjects: &[Tidegate, Tonic],
    },
];

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

    /// A problem with one of its subjects.
    pub fn answered(&self, subject: Subject, problem: &str) -> String {
        format!("{}/{}: {problem}", self.name, self.subject_name(subject))
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
    fn nobody_is_there_twice() {
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
