//! A container as far as the guard can tell one: mount and process namespaces of its own, a root
//! with few devices, `/sys` absent unless asked for, the rights that a container's root has by default, and
//! what of the host is bound in.

use std::path::Path;

use super::stage::{AttackStage, path_text};

/// `sh -c` with the new root, `sys` or not, pairs of what is bound in and its name below `/data`, `--`,
/// the binary, its words.
const SCRIPT: &str = r#"
set -e
root=$1 sys=$2; shift 2
mount --make-rprivate /
mount -t tmpfs none "$root"
cd "$root"
mkdir dev proc sys usr tmp scratch data
mount --bind /usr usr
for d in bin sbin lib lib64; do
  if [ -L /$d ]; then cp -d /$d .; elif [ -d /$d ]; then mkdir $d; mount --bind /$d $d; fi
done
mount -t tmpfs none dev
for n in null:3 zero:5 random:8 urandom:9; do mknod -m 666 dev/${n%:*} c 1 ${n#*:}; done
mkdir dev/shm
while [ "$1" != -- ]; do
  if [ -b "$1" ]; then cp -a "$1" "data/$2"
  else
    if [ -d "$1" ]; then mkdir "data/$2"; else : > "data/$2"; fi
    mount --bind "$1" "data/$2"
  fi
  shift 2
done
shift
: > taillight; mount --bind "$1" taillight; shift
mount -t proc none proc
if [ "$sys" = sys ]; then mount -t sysfs -o ro none sys; fi
exec setpriv --bounding-set=-sys_ptrace,-sys_admin,-mknod,-sys_module,-sys_rawio \
  chroot . sh -c 'cd /scratch; exec /taillight "$@"' sh "$@"
"#;

/// Whether a container has `/sys`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SysTree {
    Absent,
    ReadOnly,
}

/// The words before the binary that put it into a container; `binds` appear below `/data`.
pub fn container(
    stage: &mut AttackStage<'_>,
    sys: SysTree,
    binds: &[(&Path, &str)],
) -> Vec<String> {
    let root = stage.fresh_dir("container");
    let sys = if sys == SysTree::ReadOnly { "sys" } else { "none" };
    let head = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", SCRIPT, "sh"];
    let mut words: Vec<String> = head.map(str::to_owned).to_vec();
    words.extend([path_text(&root), sys.to_owned()]);
    for (outside, inside) in binds {
        words.extend([path_text(outside), (*inside).to_owned()]);
    }
    words.push("--".to_owned());
    words
}
