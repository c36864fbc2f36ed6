//! A queue segment after a crash: a survey ends, and what it calls whole can be read.
#![no_main]
use std::path::Path;

use bucksaw_env::{Fs as _, sim};
use bucksaw_record::Id;
use bucksaw_segment::queue::{Frames, header, survey};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let id = Id::from_bits(1);
    let file = sim::Fs::new().create(Path::new("q")).expect("a new file");
    file.append(&[&header(id), data]).expect("an append");
    let survey = survey(&file, Path::new("q"), id).expect("a survey of a file with a good header");
    let size = file.size().expect("a size");
    for place in &survey.places {
        let streams = survey.streams.clone();
        let mut frames = Frames::new(file.clone(), "q".into(), id, place.at, size, streams);
        assert!(frames.next_chunk().expect("a whole frame").is_some());
    }
});
