// Memory spaces of simulated devices, with and without `contains`.
#pragma once

#include <ferry/space/memory_space.hpp>
#include <support/sim_space.hpp>

#include <cstddef>
#include <map>
#include <new>
#include <utility>

namespace support {

/// The memory of a space, and what it was asked for.
struct arena {
    sim_system& sim;
    ferry::device where;
    std::map<void*, sim_memory> blocks{};
    int allocated = 0, freed = 0, asked = 0, fail_at = 0;
    bool throws_in_contains = false;

    [[nodiscard]] bool has(void const* p) const {
        for (auto const& [begin, block] : blocks)
            if (block.block()->contains(p)) return true;
        return false;
    }
};

struct plain_space {
    arena* in;

    [[nodiscard]] void* allocate(std::size_t bytes, std::size_t) const {
        if (in->allocated + 1 == in->fail_at) throw std::bad_alloc{};
        auto made = in->sim.make_memory(in->where, bytes);
        void* const p = made.data();
        in->blocks.emplace(p, std::move(made));
        ++in->allocated;
        return p;
    }
    void deallocate(void* p, std::size_t, std::size_t) const noexcept {
        ++in->freed;
        in->blocks.erase(p);
    }
    [[nodiscard]] ferry::device device() const noexcept { return in->where; }
};
struct knowing_space : plain_space {
    [[nodiscard]] bool contains(ferry::tensor_view const& v) const {
        ++in->asked;
        if (in->throws_in_contains) throw std::bad_alloc{};
        return in->has(v.data());
    }
};
static_assert(ferry::containing_space<knowing_space> && !ferry::containing_space<plain_space>);

}  // namespace support
