#include "all_headers.hpp"

int other();

int main() { return other(); }
