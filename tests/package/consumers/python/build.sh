$PYTHON -m venv env
. env/bin/activate
# [wheel]
pip wheel --no-deps --wheel-dir wheels "$FERRY"
# [/wheel]
# [plain]
pip install --no-index --find-links wheels ferry-headers
$CXX -std=c++20 -I "$(ferry-config --includedir)" -I "$DLPACK" main.cpp -o app
./app
# [/plain]
test "ferry $(ferry-config --version)" = "$(./app)"
test -e "$(ferry-config --cmakedir)/ferry-config.cmake"
python -m ferry_headers --version
pip uninstall --yes ferry-headers
export SKBUILD_CMAKE_BUILD_TYPE=Debug  # nanobind takes long to optimise
# [extension]
export PIP_FIND_LINKS=$PWD/wheels  # pip finds ferry-headers there
pip install ./extension
python -c "import app; print(app.total(app.numbers()))"
# [/extension]
cp wheels/ferry_headers-*.whl "$RESULT"
