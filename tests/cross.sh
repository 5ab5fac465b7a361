#!/bin/sh
# SPDX-License-Identifier: MIT
# Build for AArch64 and run tests in an emulator, without changing the system:
#
#   tests/cross.sh FOLDER CPU PROGRAM...     e.g.  tests/cross.sh /tmp/arm cortex-a57 check_bits
#
# CPU is a name that qemu-aarch64 -cpu knows. FOLDER keeps the arm64 packages (Debian, Ubuntu) and
# the build, so that a second call only runs. CC may name another compiler, such as
# CC="clang --target=aarch64-linux-gnu"; a compiler needs a FOLDER of its own.
# Exit code: 77 if the emulator, the cross compiler or apt is missing.
set -eu

[ $# -ge 3 ] || {
    echo "usage: $0 FOLDER CPU PROGRAM..." >&2
    exit 2
}
mkdir -p "$1"
folder=$(cd "$1" && pwd)
cpu=$2
shift 2
top=$(cd "$(dirname "$0")/.." && pwd)
: "${CC:=aarch64-linux-gnu-gcc}"
libc=/usr/aarch64-linux-gnu # the cross compiler's, in Debian's libc6-dev-arm64-cross

for need in qemu-aarch64 apt-get dpkg pkg-config aarch64-linux-gnu-gcc "${CC%% *}"; do
    command -v "$need" >/dev/null 2>&1 || {
        echo "$0: skipped: $need was not found (Debian: qemu-user, gcc-aarch64-linux-gnu)" >&2
        exit 77
    }
done
[ -e "$libc/include/stdlib.h" ] || {
    echo "$0: skipped: no libc for AArch64 in $libc (Debian: libc6-dev-arm64-cross)" >&2
    exit 77
}
[ -x "$top/configure" ] || {
    echo "$0: there is no configure in $top: run autoreconf -fi first" >&2
    exit 1
}

arm=$folder/arm64
libs=$arm/root/usr/lib/aarch64-linux-gnu
fetch() { # the libraries that the library and its tests need; nothing is installed
    mkdir -p "$arm/lists/partial" "$arm/archives/partial" "$arm/root" "$arm/run/lib"
    : >"$arm/status"
    set -- -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 \
        -o "Dir::State::Lists=$arm/lists" -o "Dir::State::status=$arm/status" \
        -o "Dir::Cache=$arm" -o APT::Sandbox::User="$(id -un)" -o Acquire::Retries=3
    apt-get "$@" update
    (
        cd "$arm"
        apt-get "$@" download libsleef3 libsleef-dev libjansson4 libjansson-dev check \
            libsubunit0 libsubunit-dev
        for package in *.deb; do
            dpkg -x "$package" root
        done
    )
    ln -sf "$libc"/lib/* "$libs"/*.so* "$arm/run/lib/"
    : >"$arm/fetched"
}
[ -e "$arm/fetched" ] || fetch

export QEMU_LD_PREFIX="$arm/run"
mkdir -p "$folder/build"
cd "$folder/build"
if [ ! -e config.status ]; then
    PKG_CONFIG_SYSROOT_DIR=$arm/root PKG_CONFIG_LIBDIR=$libs/pkgconfig "$top/configure" \
        --host=aarch64-linux-gnu --disable-shared --disable-contenders --enable-tests CC="$CC" \
        CPPFLAGS="-isystem $arm/root/usr/include/aarch64-linux-gnu" ${CFLAGS+CFLAGS="$CFLAGS"}
fi
targets=
for program in "$@"; do
    targets="$targets tests/$program"
done
# shellcheck disable=SC2086 # words are wanted
make -s $targets
for program in "$@"; do
    echo "-- $program on $cpu"
    srcdir=$top qemu-aarch64 -cpu "$cpu" "tests/$program"
done
