//! Descriptors of one thread alone. In a table that threads share, the kernel counts the reference of a file up and down
//! with each call; in that of one thread it does not. Workers get one where their target says which of its
//! descriptors they use ([`crate::Target::descriptors`]).

mod sys;

pub use sys::OwnDescriptors;

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read, Write};
    use std::os::fd::AsRawFd;
    use std::path::Path;
    use std::sync::mpsc;

    use super::*;

    /// Names of the files below `home` that a table has: `self` is the process, `thread-self` the calling thread.
    fn open_in(table: &str, home: &Path) -> Vec<String> {
        let all = std::fs::read_dir(format!("/proc/{table}/fd")).unwrap().flatten();
        let links = all.filter_map(|fd| std::fs::read_link(fd.path()).ok());
        let mut names: Vec<String> = links
            .filter_map(|link| Some(link.strip_prefix(home).ok()?.display().to_string()))
            .collect();
        names.sort();
        names
    }

    /// Does it on a thread beside this one.
    fn beside<T: Send>(what: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| scope.spawn(what).join().unwrap())
    }

    #[test]
    fn a_thread_keeps_what_it_names_and_opens_for_itself() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        let create = |name: &str| File::create_new(home.join(name)).unwrap();
        let [before, mut one, two, behind] = ["before", "one", "two", "behind"].map(create);
        let kept = [two.as_raw_fd(), one.as_raw_fd(), two.as_raw_fd()];
        let done = beside(|| {
            let Ok(own) = OwnDescriptors::keep(&kept) else { return false };
            assert_eq!(open_in("thread-self", &home), ["one", "two"]);
            assert!(before.metadata().is_err() && behind.metadata().is_err());
            one.write_all(b"by its number").unwrap();
            let mine = create("mine");
            assert_eq!(open_in("thread-self", &home), ["mine", "one", "two"]);
            assert_eq!(open_in("self", &home), ["before", "behind", "one", "two"]);
            drop(mine);
            drop(own);
            assert!(open_in("thread-self", &home).is_empty());
            true
        });
        if !done {
            eprintln!("skipped: a_thread_keeps_what_it_names: no close_range(2)");
            return;
        }
        assert_eq!(open_in("self", &home), ["before", "behind", "one", "two"]);
        assert!([&before, &one, &two, &behind].iter().all(|file| file.metadata().is_ok()));
        let mut text = String::new();
        File::open(home.join("one")).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "by its number");
    }

    /// A lock is of what was opened, whoever has a descriptor of it.
    #[test]
    fn what_a_thread_has_kept_is_closed_before_it_ends() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let (held, again) = (File::open(file.path()).unwrap(), File::open(file.path()).unwrap());
        held.lock().unwrap();
        let number = held.as_raw_fd();
        std::thread::scope(|scope| {
            let ((step_in, step), (told_in, told)) = (mpsc::channel(), mpsc::channel::<()>());
            scope.spawn(move || {
                let own = OwnDescriptors::keep(&[number]);
                step_in.send(own.is_ok()).unwrap();
                told.recv().unwrap();
                drop(own);
                let _ = step_in.send(true);
                // Not ended yet.
                let _ = told.recv();
            });
            if !step.recv().unwrap() {
                eprintln!("skipped: what_a_thread_has_kept_is_closed: no close_range(2)");
                let _ = told_in.send(());
                return;
            }
            drop(held);
            assert!(again.try_lock().is_err(), "the thread has it");
            told_in.send(()).unwrap();
            step.recv().unwrap();
            // Another test may have copied all that this process has open, and be about to close it.
            let free = (0..100).any(|_| {
                let free = again.try_lock().is_ok();
                if !free {
                    std::thread::sleep(std::time::Duration::from_millis(10));
                }
                free
            });
            assert!(free, "somebody has it still");
        });
    }

    #[test]
    fn a_table_that_cannot_be_had_stays_the_process_s() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        let file = File::create_new(home.join("file")).unwrap();
        beside(|| {
            crate::file::forbid(libc::SYS_close_range).unwrap();
            let refused = OwnDescriptors::keep(&[]).err().expect("a refusal");
            assert_eq!(refused.raw_os_error(), Some(libc::EPERM));
            let _mine = File::create_new(home.join("mine")).unwrap();
            assert_eq!(open_in("self", &home), ["file", "mine"]);
            assert!(file.metadata().is_ok());
        });
    }
}
