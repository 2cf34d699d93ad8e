# The port in the tree, then the port by itself, which gets its source from the registry's archive.
test_port() { # PORT NAME [FEATURE]
    "$FERRY/tests/package/vcpkg/install" "$1" "$PWD/$2" "$DLPACK" "${@:3}"
    cmake -S . -B "build-$2" -DCMAKE_PREFIX_PATH="$PWD/$2/installed/x64-linux"
    cmake --build "build-$2"
    "./build-$2/app"
}
test_port "$FERRY/ports/ferry" overlay
mkdir registry-port archive
cp -r "$FERRY/ports/ferry/." registry-port
cp -r "$FERRY"/{CMakeLists.txt,LICENSE,cmake,include,packaging} archive
export VCPKG_TEST_ARCHIVE=$PWD/archive
test_port "$PWD/registry-port" registry
diff -r overlay/installed registry/installed
sed -i 's/REQUIRED/& COMPONENTS compiled/; s/ferry::ferry/ferry::compiled/' CMakeLists.txt
test_port "$FERRY/ports/ferry" feature compiled
test -e feature/installed/x64-linux/lib/libferry_compiled.a
cp -r overlay/packages/ferry_x64-linux "$RESULT"
