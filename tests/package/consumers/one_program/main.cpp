// What one part makes, every part reads.
#include "part.hpp"

#include <cstdio>

#define X(name) DECLARE_PART(name)
PARTS
#undef X

struct part {
    ferry::managed_tensor (*make)();
    float (*sum)(ferry::managed_tensor const&);
    ferry::column (*make_column)();
    std::int64_t (*length)(ferry::column const&);
};

int main() {
    part const parts[] = {
#define X(name) {name::make, name::sum, name::make_column, name::length},
        PARTS
#undef X
    };
    for (part const& from : parts)
        for (part const& to : parts)
            if (to.sum(from.make()) != 6 || to.length(from.make_column()) != 3) return 1;
    std::printf("ferry %d.%d.%d\n", FERRY_VERSION_MAJOR, FERRY_VERSION_MINOR, FERRY_VERSION_PATCH);
}
