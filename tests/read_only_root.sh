# Run a command with a read-only root file system, as a container does: `read_only_root.sh FOLDER... -- COMMAND`.
# Only the folders can be written. Needs a mount namespace of its own: unshare --mount.
set -euo pipefail
mount --make-rprivate /
written=()
while [ "$1" != -- ]; do
    mount --bind "$1" "$1"
    written+=("$1")
    shift
done
shift
while read -r _ place _; do
    case " ${written[*]} " in
    *" $place "*) ;;
    *) mount -o remount,bind,ro "$place" 2> /dev/null || true ;;
    esac
done < <(grep -v -e ' /proc' -e ' /sys' -e ' /dev' /proc/self/mounts)
exec "$@"
