//! The command `in-process`: every case, over every subject that can do it.

use crate::cases;
use crate::cores;
use crate::departures;
use crate::harness::{self, Options};
use crate::measure;
use crate::pace::Pace;
use crate::subjects;

/// All cases that have a subject.
pub fn cases(options: &Options) -> Vec<harness::Case> {
    let pace = if options.overlap { Pace::Overlapping } else { Pace::Apart };
    let mut all = Vec::new();
    for case in cases::ALL {
        if cores::count() < case.threads {
            eprintln!("left out `{}`: it needs {} cores", case.name, case.threads);
        } else {
            all.push(measure::case(case, subjects::offers(case), pace));
        }
    }
    all.extend(departures::cases());
    all
}
