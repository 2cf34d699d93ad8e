export CONAN_HOME=$PWD/home
# [create]
conan create "$FERRY" --profile:all profile
# [/create]
# [build]
conan install . --profile:all profile --output-folder build
cmake -S . -B build -DCMAKE_TOOLCHAIN_FILE=conan_toolchain.cmake -DCMAKE_BUILD_TYPE=Release
cmake --build build
./build/app
# [/build]
# Header-only: one package, whatever the settings.
conan install --requires "ferry/[>=0.1]" --profile:all profile --settings build_type=Debug --settings compiler.cppstd=23
packages=$(conan list 'ferry/*:*' --format=compact | grep -o 'ferry/.*:[0-9a-f]\{40\}$')
cp -r "$(conan cache path "$packages")" "$RESULT"  # fails if there are two
