# The port in the tree, then the port by itself, which gets its source from the registry's archive.
test_port() { # PORT NAME
    "$FERRY/tests/package/vcpkg/install" "$1" "$PWD/$2" "$DLPACK"
    cmake -S . -B "build-$2" -DCMAKE_PREFIX_PATH="$PWD/$2/installed/x64-linux"
    cmake --build "build-$2"
    "./build-$2/app"
}
test_port "$FERRY/ports/ferry" overlay
mkdir registry-port archive
cp -r "$FERRY/ports/ferry/." registry-port
cp -r "$FERRY"/{CMakeLists.txt,LICENSE,cmake,include} archive
export VCPKG_TEST_ARCHIVE=$PWD/archive
test_port "$PWD/registry-port" registry
diff -r overlay/installed registry/installed
cp -r overlay/packages/ferry_x64-linux "$RESULT"
