//! The configurations on the pages of `docs/senders`, which tests give to the senders.

use std::path::Path;

fn page(name: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/senders").join(name).with_extension("md");
    std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// The blocks of code of a page.
fn blocks(page: &str) -> Vec<&str> {
    page.split("\n```").skip(1).step_by(2).collect()
}

/// A file on a page: the block whose first line is a comment with its name.
pub(super) fn file_of_page(name: &str, file: &str) -> String {
    let page = page(name);
    let start = format!("yaml\n# {file}\n");
    let found = blocks(&page).into_iter().find_map(|block| block.strip_prefix(start.as_str()).map(str::to_owned));
    found.unwrap_or_else(|| panic!("the page {name} has no file {file}"))
}

/// The options of a log driver on the page of Docker, as `NAME=VALUE`.
pub(super) fn docker_options(driver: &str) -> Vec<String> {
    let page = page("docker");
    let start = format!("sh\ndocker run --log-driver {driver} ");
    let block = blocks(&page).into_iter().find(|block| block.starts_with(start.as_str()));
    let words: Vec<&str> = block.unwrap_or_else(|| panic!("no example of {driver}")).split_whitespace().collect();
    let options = words.windows(2).filter(|pair| pair[0] == "--log-opt").map(|pair| pair[1].to_owned());
    options.collect()
}
