// Common parts of the targets of Arrow's interfaces: hostile structs whose memory has exactly the size that they may
// state.
#pragma once

#include "bytes.hpp"

#include <ferry/arrow.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

// Most inputs end in an exception, for which the sanitizer would clear its fake stack, in half of the time.
extern "C" char const* __asan_default_options();
extern "C" char const* __asan_default_options() { return "detect_stack_use_after_return=0"; }

namespace fuzz {

inline constexpr std::string_view formats[] = {
    "i",   "u",   "+l",  "+s",      "vu",  "+m",  "+ud:0,1", "+us:4,5",  "+r",     "+w:2",        "+vl",
    "n",   "b",   "c",   "C",       "s",   "S",   "I",       "l",        "L",      "e",           "f",
    "g",   "z",   "Z",   "U",       "vz",  "w:3", "w:0",     "d:9,2,32", "d:38,2", "d:76,-1,256", "tdD",
    "tdm", "tts", "ttn", "tsu:UTC", "tDn", "tiM", "tiD",     "tin",      "+L",     "+vL",         "+w:0"};

/// An allocation of exactly this size, which AddressSanitizer guards. Freed with its pool.
class pool {
   public:
    [[nodiscard]] unsigned char* take(std::size_t size) {
        return blocks_.emplace_back(new unsigned char[size]()).get();
    }
    template <class T>
    [[nodiscard]] T* take_of(std::size_t count) {
        return reinterpret_cast<T*>(take(count * sizeof(T)));
    }
    [[nodiscard]] char* text(std::string_view from) {
        auto* const to = take(from.size() + 1);
        std::memcpy(to, from.data(), from.size());
        return reinterpret_cast<char*>(to);
    }

   private:
    std::vector<std::unique_ptr<unsigned char[]>> blocks_;
};

/// Up to `most` bytes of the input.
inline std::string_view take_text(bytes& in, pool& memory, unsigned most) {
    auto const size = in.below(most + 1);
    auto* const p = reinterpret_cast<char*>(memory.take(size));
    for (unsigned i = 0; i < size; ++i) p[i] = in.take<char>();
    return {p, size};
}

/// Metadata of a consistent size, or with a negative number; an ArrowSchema has no size of it.
inline char const* take_metadata(bytes& in, pool& memory) {
    auto const pairs = static_cast<std::int32_t>(in.below(4)) - 1;
    std::vector<char> all;
    auto const put = [&](std::int32_t n) {
        all.resize(all.size() + 4);
        std::memcpy(all.data() + all.size() - 4, &n, 4);
    };
    put(pairs);
    for (std::int32_t i = 0; i < 2 * pairs; ++i) {
        auto const length = static_cast<std::int32_t>(in.below(6)) - 1;
        put(length);
        if (length < 0) break;
        for (std::int32_t k = 0; k < length; ++k) all.push_back(in.take<char>());
    }
    auto* const to = memory.take(all.size());
    std::memcpy(to, all.data(), all.size());
    return reinterpret_cast<char const*>(to);
}

/// Released at most once, and by its own callback.
template <class Struct>
void own(Struct& s, int& released) {
    s.private_data = &released;
    s.release = [](Struct* p) {
        ++*static_cast<int*>(p->private_data);
        for (std::int64_t i = 0; i < p->n_children; ++i) p->children[i]->release = nullptr;
        if (p->dictionary != nullptr) p->dictionary->release = nullptr;
        p->release = nullptr;
    };
}

/// Already released: no other member may be read.
template <class Struct>
void let_go(Struct& s) {
    std::memset(static_cast<void*>(&s), 8, sizeof s);
    s.release = nullptr;
}

/// A missing struct.
template <class F>
void refuses_null(F f) {
    try {
        f();
        HOLDS(false);
    } catch (ferry::error const& e) {
        saw(e.code());
        HOLDS(e.code() == ferry::errc::argument);
    }
}

/// The same types, names, flags and metadata.
inline bool same_type(ferry::column_view a, ferry::column_view b) {
    if (a.format() != b.format() || a.name() != b.name() || a.metadata() != b.metadata() || a.flags() != b.flags() ||
        a.child_count() != b.child_count() || a.has_dictionary() != b.has_dictionary())
        return false;
    for (int i = 0; i < a.child_count(); ++i)
        if (!same_type(a.child(i), b.child(i))) return false;
    return !a.has_dictionary() || same_type(a.dictionary(), b.dictionary());
}

/// Imports what ferry has exported.
inline void goes_round(ferry::column const& c) {
    ArrowSchema schema{};
    ArrowArray array{};
    ferry::to_arrow_schema(c, &schema);
    auto const type = ferry::from_arrow_schema(&schema);
    HOLDS(same_type(type, c) && type.length() == 0);
    ferry::to_arrow(c, &array);
    auto const back = ferry::from_arrow(&array, &schema);
    HOLDS(same_type(back, c) && back.length() == c.length() && array.release == nullptr && schema.release == nullptr);
}

}  // namespace fuzz
