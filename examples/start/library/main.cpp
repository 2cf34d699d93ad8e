#include "grid_ferry.hpp"

#include <ferry/conformance.hpp>

#include <cstdio>
#include <stdexcept>

int main() {
    grid const mine = make_grid(2, 3);
    ferry::managed_tensor tensor = ferry::to_dlpack(mine);  // a DLPack struct that shares the memory
    grid const back = ferry::from_dlpack<grid>(std::move(tensor));  // imported; shares the memory
    std::printf("the same elements: %s\n", back.data == mine.data ? "yes" : "no");

    // Tests the adapter against the rules of the exchange.
    auto const make = [](ferry::shape_view shape) {
        if (shape.rank() != 2) throw std::invalid_argument{"a grid has two dimensions"};
        return make_grid(shape[0], shape[1]);
    };
    auto const sum = ferry::conformance::run<grid>(make, [](ferry::conformance::finding const& f) {
        if (f.outcome == ferry::conformance::verdict::broken)
            std::printf("%s %s: %s\n", f.rule, f.name, f.evidence);
    });
    std::printf("%d rules broken\n", sum.broken);
    return sum ? 0 : 1;
}
