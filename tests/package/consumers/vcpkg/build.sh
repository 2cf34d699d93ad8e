# The port in the tree, then the port of the release by itself, which gets its source from the archive of the release.
test_port() { # PORT NAME [FEATURE]
    "$FERRY/tests/package/vcpkg/install" "$1" "$PWD/$2" "$DLPACK" "${@:3}"
    cmake -S . -B "build-$2" -DCMAKE_PREFIX_PATH="$PWD/$2/installed/x64-linux"
    cmake --build "build-$2"
    "./build-$2/app"
}
test_port "$FERRY/ports/ferry" overlay
if [ -d "$RELEASE" ]; then
    tar -xzf "$RELEASE/vcpkg-port.tar.gz"
    export VCPKG_TEST_ARCHIVE=$(ls "$RELEASE"/ferry-*.tar.gz)
    test_port "$PWD/ferry" registry
    diff -r overlay/installed registry/installed
fi
sed -i 's/REQUIRED/& COMPONENTS compiled/; s/ferry::ferry/ferry::compiled/' CMakeLists.txt
test_port "$FERRY/ports/ferry" feature compiled
test -e feature/installed/x64-linux/lib/libferry_compiled.a
cp -r overlay/packages/ferry_x64-linux "$RESULT"
