// Vectors, arrays and spans of the standard library, as tensors of any shape.
#include <ferry/adapters/std.hpp>
#include <ferry/ferry.hpp>

#include <array>
#include <span>
#include <utility>
#include <vector>

#undef NDEBUG  // the program is a test
#include <cassert>

int main() {
    // [std]
    std::vector<float> numbers{1, 2, 3, 4, 5, 6};
    ferry::managed_tensor owned = ferry::to_dlpack(ferry::shaped{std::move(numbers), {2, 3}});  // moves the vector
    std::array<std::array<int, 2>, 2> grid{{{1, 2}, {3, 4}}};
    auto const lent = ferry::borrow(grid);                                                      // two dimensions, for this scope
    ferry::shaped row{std::span{grid[1]}};                                                      // borrows its elements
    // [/std]
    assert((owned.as<float, 2>()(1, 2) == 6));
    assert((ferry::as<int const, 2>(lent.view())(1, 0) == 3));
    assert((ferry::as<int, 1>(ferry::view_of(row))(1) == 4));
}
