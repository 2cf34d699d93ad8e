mkdir changed
cp -r "$FERRY/include/ferry" changed
sed -i 's/^class managed_tensor {/&\n    int one_member_more_ = 0;/' changed/ferry/tensor/managed.hpp
! cmp -s changed/ferry/tensor/managed.hpp "$FERRY/include/ferry/tensor/managed.hpp"
cmake -S . -B build -DCMAKE_PREFIX_PATH="$PREFIX" -DWITH="${WITH%;kernels}" -DCHANGED="$PWD/changed" \
    -DFERRY_DLPACK_INCLUDE_DIR="$DLPACK" -DPython3_EXECUTABLE="$PYTHON"
if cmake --build build --target wrong_app >wrong.log 2>&1; then
    echo "another layout of managed_tensor went unnoticed"
    exit 1
fi
grep 'violates the C++ One Definition Rule' wrong.log || { cat wrong.log; exit 1; }
cmake --build build
./build/app
