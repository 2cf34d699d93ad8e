// What CPython never frees is no leak of ours. LeakSanitizer asks for this function; other builds never call it.
extern "C" char const* __lsan_default_suppressions();
extern "C" char const* __lsan_default_suppressions() { return "leak:libpython\n"; }
