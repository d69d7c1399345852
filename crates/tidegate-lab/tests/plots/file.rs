//! The file of a picture: checked before, no other file left, written in full or not at all.

#![allow(clippy::unwrap_used)] // helpers of tests stop the test

use std::fs;
use std::path::Path;

use tidegate_lab::PictureFile;

/// The text of the error.
fn refused(path: impl AsRef<Path>) -> String {
    let error = PictureFile::at(path.as_ref()).unwrap_err();
    let said = error.to_string();
    assert!(said.contains(&format!("picture to {}: ", path.as_ref().display())), "{said}");
    said
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn looking_leaves_nothing_behind_and_writing_leaves_the_picture() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.SVG");
    let file = PictureFile::at(&path).unwrap();
    assert_eq!(names(dir.path()), Vec::<String>::new());
    file.write("<svg/>").unwrap();
    assert_eq!(
        (names(dir.path()), fs::read_to_string(&path).unwrap()),
        (vec!["a.SVG".into()], "<svg/>".into())
    );
}

#[test]
fn an_older_picture_stays_until_there_is_another() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.svg");
    fs::write(&path, "old").unwrap();
    let file = PictureFile::at(&path).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "old");
    file.write("new").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "new");
}

#[test]
fn a_name_without_a_folder_is_one_in_the_present_folder() {
    PictureFile::at("not-made-by-looking.svg").unwrap();
    assert!(!Path::new("not-made-by-looking.svg").exists());
}

#[test]
fn other_kinds_of_picture_are_refused_by_name() {
    for name in ["a.png", "a", "", "svg", ".svg", "a.svg.gz", "/"] {
        assert!(refused(name).contains("ends in .svg"), "{name}");
        assert!(PictureFile::at(name).unwrap_err().is_usage(), "{name}");
    }
}

#[test]
fn a_folder_that_is_not_there_and_a_file_in_its_place_are_named() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), "").unwrap();
    for parent in ["nowhere", "file"] {
        let said = refused(dir.path().join(parent).join("a.svg"));
        assert!(said.contains(parent) && !said.contains("ends in"), "{said}");
    }
    fs::create_dir(dir.path().join("folder.svg")).unwrap();
    assert!(refused(dir.path().join("folder.svg")).contains("it is a folder"));
}

#[test]
fn a_file_that_may_not_be_written_is_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.svg");
    fs::write(&path, "old").unwrap();
    let mut permissions = fs::metadata(&path).unwrap().permissions();
    permissions.set_readonly(true);
    fs::set_permissions(&path, permissions).unwrap();
    assert!(refused(&path).contains("may not be written"));
}

#[test]
fn a_folder_that_goes_away_meanwhile_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.svg");
    let file = PictureFile::at(&path).unwrap();
    drop(dir);
    let said = file.write("<svg/>").unwrap_err().to_string();
    assert!(said.contains(&path.display().to_string()), "{said}");
}

#[cfg(unix)]
#[test]
fn a_symbolic_link_is_refused_and_what_it_leads_to_stays() {
    let dir = tempfile::tempdir().unwrap();
    let (link, path) = (dir.path().join("link.svg"), dir.path().join("mine"));
    fs::write(&path, "mine").unwrap();
    for (target, name) in [("mine", "link.svg"), ("nowhere.svg", "dangling.svg")] {
        std::os::unix::fs::symlink(target, dir.path().join(name)).unwrap();
        assert!(refused(dir.path().join(name)).contains("symbolic link; name the file itself"));
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    // A link that comes after the check is replaced, and not followed.
    fs::remove_file(&link).unwrap();
    let file = PictureFile::at(&link).unwrap();
    std::os::unix::fs::symlink("mine", &link).unwrap();
    file.write("picture").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    assert!(fs::symlink_metadata(&link).unwrap().is_file());
}

#[cfg(unix)]
#[test]
fn the_permissions_of_an_older_picture_stay() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.svg");
    PictureFile::at(&path).unwrap().write("one").unwrap();
    let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode() & 0o600, 0o600);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    PictureFile::at(&path).unwrap().write("two").unwrap();
    assert_eq!((fs::read_to_string(&path).unwrap().as_str(), mode()), ("two", 0o640));
}
