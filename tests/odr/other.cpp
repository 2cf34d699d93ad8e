#include "all_headers.hpp"

int other();

int other() { return 0; }
