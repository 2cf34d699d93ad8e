// Hostile arrays: the contents of the structs are arbitrary, and each buffer has exactly the size that type, offset,
// length and last offset require. Either an error, after which the caller owns the structs, or a column that is
// counted, sliced, validated, exported, read, compacted, joined and copied without a read out of range.
#include "arrow.hpp"

#include <ferry/base/error.hpp>
#include <ferry/column/as.hpp>
#include <ferry/column/concat.hpp>
#include <ferry/column/to.hpp>
#include <ferry/column/validate.hpp>
#include <ferry/column/values.hpp>

#include <algorithm>
#include <cstring>
#include <optional>

namespace {

constexpr std::int64_t most_bytes = 4096;

class tree_maker {
   public:
    tree_maker(fuzz::bytes& in, fuzz::pool& memory) : in_{in}, memory_{memory} {}

    void make(ArrowArray& a, ArrowSchema& s, std::int64_t wanted, int depth, std::string_view format = {}) {
        auto const what = in_.take<std::uint8_t>();
        s.format = memory_.text(format.empty() ? fuzz::formats[what % std::size(fuzz::formats)] : format);
        s.flags = 2;
        auto const more = in_.take<std::uint8_t>();
        a.offset = (more & 1) != 0 ? number() : 0;
        a.length = (more & 2) != 0 ? number() : wanted;
        a.null_count = (more & 4) != 0 ? number() : -1;
        auto const type = *ferry::parse_format(s.format);
        is_bad = is_bad || a.length < 0 || a.offset < 0 || a.null_count < -1;
        take_buffers(a, type, (more & 8) != 0);
        take_children(a, s, type, depth);
        if ((more & 16) != 0 && depth < 6) {
            s.dictionary = memory_.take_of<ArrowSchema>(1), a.dictionary = memory_.take_of<ArrowArray>(1);
            make(*a.dictionary, *s.dictionary, 3, depth + 1);
        }
        fuzz::own(a, arrays_released);
        fuzz::own(s, schemas_released);
        if ((more & 0xe0) == 0xe0) spoil(a, s);
    }
    int arrays_released = 0, schemas_released = 0;
    bool is_bad = false;    ///< must be refused
    bool is_lying = false;  ///< buffers are smaller than an import can detect: nothing is read

   private:
    std::int64_t number() {
        std::int64_t const n = in_.take<std::int8_t>();
        return n == -128  ? INT64_MIN
               : n == 127 ? INT64_MAX
               : n == 126 ? INT64_MAX - in_.take<std::uint8_t>()
               : n < -8   ? -n
                          : n;
    }

    void take_buffers(ArrowArray& a, ferry::column_type const& type, bool has_nulls) {
        auto const layout = ferry::layout_of(type);
        auto const variadic = layout.is_variadic ? in_.below(3) : 0U;
        a.n_buffers = layout.buffer_count + (layout.is_variadic ? static_cast<int>(variadic) + 1 : 0);
        if (a.n_buffers != 0) a.buffers = memory_.take_of<void const*>(static_cast<std::size_t>(a.n_buffers));
        for (int i = 0; i < layout.buffer_count; ++i) {
            auto const kind = layout.buffers[i].kind;
            if (kind == ferry::buffer_kind::validity && !has_nulls) continue;
            std::int64_t bytes = 0, end = 0;
            bool const is_sum = !ferry::detail::checked_add(a.offset, a.length, end) || a.offset < 0 || a.length < 0;
            if (is_sum || !ferry::needed_bytes(type, layout.buffers[i], end, bytes)) {
                a.buffers[i] = memory_.take(1);  // an import refuses it before it reads
                is_lying = true;
                continue;
            }
            if (kind == ferry::buffer_kind::bytes) bytes = last_offset(a, layout.buffers[1].bits, end);
            if (bytes > most_bytes || bytes < 0) is_lying = is_lying || bytes > 0, bytes = 0;
            if (a.length == 0 && in_.flip()) bytes = 0;  // then the single offset may be missing as well
            if (bytes == 0 && in_.flip()) continue;
            auto* const p = memory_.take(static_cast<std::size_t>(bytes));
            for (std::int64_t k = 0; k < bytes && !in_.is_empty(); ++k) p[k] = in_.take<std::uint8_t>();
            a.buffers[i] = p;
        }
        if (layout.is_variadic) take_variadic(a, variadic);
        if (has_nulls && !layout.has_validity() && type.id != ferry::type_id::run_end_encoded) put_validity(a, type.id);
    }
    /// As old producers export it.
    void put_validity(ArrowArray& a, ferry::type_id id) {
        auto** const more = memory_.take_of<void const*>(static_cast<std::size_t>(a.n_buffers) + 1);
        std::copy_n(a.buffers, a.n_buffers, more + 1);
        if (in_.flip()) more[0] = memory_.take(0);
        is_bad = is_bad || (more[0] != nullptr && id != ferry::type_id::null && a.null_count != 0);
        a.buffers = more, ++a.n_buffers;
    }
    [[nodiscard]] static std::int64_t last_offset(ArrowArray const& a, int bits, std::int64_t end) {
        if (a.length == 0 || a.buffers[1] == nullptr || end >= most_bytes / (bits / 8)) return 0;
        std::int32_t small = 0;
        std::int64_t large = 0;
        auto const* const p = static_cast<char const*>(a.buffers[1]) + end * (bits / 8);
        if (bits == 32) return std::memcpy(&small, p, 4), small;
        return std::memcpy(&large, p, 8), large;
    }
    void take_variadic(ArrowArray& a, unsigned variadic) {
        auto* const lengths = memory_.take_of<std::int64_t>(variadic);
        a.buffers[a.n_buffers - 1] = variadic != 0 || in_.flip() ? lengths : nullptr;
        for (unsigned i = 0; i < variadic; ++i) {
            lengths[i] = in_.take<std::int8_t>();
            if (lengths[i] < 0) is_bad = true;
            auto const size = static_cast<std::size_t>(std::max<std::int64_t>(0, lengths[i]));
            auto* const p = memory_.take(size);
            for (std::size_t k = 0; k < size && !in_.is_empty(); ++k) p[k] = in_.take<std::uint8_t>();
            a.buffers[2 + i] = p;
        }
    }
    void take_children(ArrowArray& a, ArrowSchema& s, ferry::column_type const& type, int depth) {
        using enum ferry::type_id;
        auto const wanted = ferry::layout_of(type).child_count;
        auto const children =
            wanted < 0 ? (ferry::is_union(type.id) ? 2U : in_.below(3)) : static_cast<unsigned>(wanted);
        if (children == 0) return;
        a.n_children = s.n_children = children;
        s.children = memory_.take_of<ArrowSchema*>(children), a.children = memory_.take_of<ArrowArray*>(children);
        auto const end = a.offset >= 0 && a.offset < 64 && a.length >= 0 && a.length < 64 ? a.offset + a.length : 1;
        for (unsigned i = 0; i < children; ++i) {
            s.children[i] = memory_.take_of<ArrowSchema>(1), a.children[i] = memory_.take_of<ArrowArray>(1);
            std::string_view const format = depth > 5 || in_.is_empty()            ? "c"
                                            : type.id == map                       ? "+s"
                                            : type.id == run_end_encoded && i == 0 ? "s"
                                                                                   : "";
            make(*a.children[i], *s.children[i], type.id == fixed_size_list ? end * type.width : end, depth + 1,
                 format);
        }
    }
    void spoil(ArrowArray& a, ArrowSchema& s) {
        is_bad = true;
        switch (in_.below(9)) {
            case 0: fuzz::let_go(a); break;
            case 1: fuzz::let_go(s); break;
            case 2: a.n_children ^= 1; break;
            case 3: a.n_buffers = in_.flip() ? -1 : INT64_MAX; break;
            case 4:
                if (a.n_buffers != 0) a.buffers = nullptr;
                else a.n_buffers = 1;
                break;
            case 5:
                if (a.n_children != 0) a.children[a.n_children - 1] = nullptr;
                else a.n_children = s.n_children = 1;
                break;
            case 6:
                if (a.dictionary != nullptr) a.dictionary = nullptr;
                else a.dictionary = &a;
                break;
            case 7: s.format = in_.flip() ? nullptr : "+"; break;
            default: a.n_children = s.n_children = INT64_MIN;
        }
    }

    fuzz::bytes& in_;
    fuzz::pool& memory_;
};

bool is_valid(ferry::column_view c) {
    try {
        ferry::validate(c, ferry::validation::full);
        return true;
    } catch (ferry::error const& e) {
        fuzz::saw(e.code());
        HOLDS(e.code() == ferry::errc::bad_column);
        return false;
    }
}

void read(ferry::column_view c) {
    auto const nulls = c.null_count();
    HOLDS(nulls >= 0 && nulls <= c.length());
    if (c.length() > 2) HOLDS(c.slice(1, c.length() - 2).null_count() <= c.length() - 2);
    for (int i = 0; i < c.child_count(); ++i) read(c.child(i));
    if (c.has_dictionary()) read(c.dictionary());
}

/// Calls `f`, which may find the column inconsistent. Returns the error code, or ok.
template <class F>
ferry::errc outcome(F f) {
    try {
        f();
        return ferry::errc::ok;
    } catch (ferry::error const& e) {
        fuzz::saw(e.code());
        HOLDS(e.code() == ferry::errc::bad_column || e.code() == ferry::errc::overflow ||
              e.code() == ferry::errc::dtype || e.code() == ferry::errc::out_of_range);
        return e.code();
    }
}

template <class T>
void read_items(ferry::column_view c) {
    outcome([&] {
        for (auto const item : c.values<T>())
            if constexpr (requires { item->size(); })
                if (item)
                    for (auto const b : *item) static_cast<void>(static_cast<unsigned char>(b) == 1 ? item->size() : 0);
    });
}

/// A conversion reads no byte outside of the buffers, and that of a valid column is valid.
void convert(ferry::column const& c, bool is_whole) {
    for (auto const* format : {"u", "U", "vu", "z", "vz", "+l", "+L", "+vl", "+vL", "c", "L", "d:9,2,32", "d:38,2"}) {
        ferry::column copy;
        if (outcome([&] { copy = ferry::as(c, format); }) == ferry::errc::ok && is_whole)
            HOLDS(is_valid(copy) && copy.length() == c.length());
    }
    if (!c.has_dictionary()) return;
    ferry::column copy;
    if (outcome([&] { copy = ferry::as(c, c.view().dictionary()); }) == ferry::errc::ok && is_whole)
        HOLDS(is_valid(copy) && copy.null_count() >= c.null_count());
}

/// No value of an item leads to an access outside of its buffers, and a valid column can be read and copied.
void use(ferry::column const& c, bool is_whole) {
    auto const v = c.view();
    read_items<double>(v);
    read_items<bool>(v);
    read_items<ferry::decimal<128>>(v);
    read_items<std::span<std::byte const>>(v);
    read_items<ferry::column_view>(v);
    for (auto const& part : {c, c.slice(c.length() / 3, c.length() / 2)}) {
        ferry::column copy;
        auto const said = outcome([&] { copy = ferry::compact(part); });
        // Overlapping views have more items than their child.
        HOLDS(said == ferry::errc::ok || !is_whole || said == ferry::errc::overflow);
        if (said == ferry::errc::ok && is_whole)
            HOLDS(is_valid(copy) && copy.length() == part.length() && copy.null_count() == part.null_count());
        ferry::column const twice[] = {part, part};
        if (outcome([&] { copy = ferry::concat(twice); }) == ferry::errc::ok && is_whole)
            HOLDS(is_valid(copy) && copy.length() == 2 * part.length());
        convert(part, is_whole);
    }
}

/// Whether two compact columns have the same structure and bytes.
bool is_same(ferry::detail::column_node const& a, ferry::detail::column_node const& b) {
    auto const same = [](ferry::column_buffer const& x, ferry::column_buffer const& y) {
        return x.bytes == y.bytes &&
               (x.bytes <= 0 || std::memcmp(x.data, y.data, static_cast<std::size_t>(x.bytes)) == 0);
    };
    return a.format == b.format && a.length == b.length && a.offset == b.offset &&
           std::ranges::equal(a.buffers, b.buffers, same) && std::ranges::equal(a.children, b.children, is_same) &&
           (a.dictionary == nullptr) == (b.dictionary == nullptr) &&
           (a.dictionary == nullptr || is_same(*a.dictionary, *b.dictionary));
}

/// A copy of the bytes that a slice uses has its values.
void copy(ferry::column const& c) {
    auto const part = c.slice(c.length() / 3, c.length() / 2);
    ferry::detail::column_copy made{ferry::host_only, ferry::host_only, ferry::cpu, ferry::cpu, false, {}, {}};
    auto const copied = made.run(part);
    HOLDS(is_valid(copied));
    ferry::column one, other;
    auto const said = outcome([&] { one = ferry::compact(part); });
    HOLDS(outcome([&] { other = ferry::compact(copied); }) == said);
    HOLDS(said != ferry::errc::ok || is_same(one.view().node(), other.view().node()));
}

/// Long columns without memory: a total length that overflows is refused.
void join(ferry::column const& c) {
    ferry::column const twice[] = {c, c};
    ferry::column copy;
    if (outcome([&] { copy = ferry::concat(twice); }) == ferry::errc::ok) HOLDS(copy.length() / 2 == c.length());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t count) {
    fuzz::bytes in{data, count};
    fuzz::pool memory;
    ArrowArray array{};
    ArrowSchema schema{};
    if (count == 0) {
        fuzz::refuses_null([&] { static_cast<void>(ferry::from_arrow(static_cast<ArrowArray*>(nullptr), &schema)); });
        fuzz::refuses_null([&] { static_cast<void>(ferry::from_arrow(&array, nullptr)); });
        return 0;
    }
    tree_maker maker{in, memory};
    maker.make(array, schema, in.below(20), 1);
    auto const array_before = array;
    auto const schema_before = schema;
    std::optional<ferry::column> c;
    try {
        c = ferry::from_arrow(&array, &schema);
    } catch (ferry::error const& e) {
        fuzz::saw(e.code());
        HOLDS(e.code() == ferry::errc::bad_column);
        HOLDS(std::memcmp(&array_before, &array, sizeof array) == 0 &&
              std::memcmp(&schema_before, &schema, sizeof schema) == 0);
        HOLDS(maker.arrays_released + maker.schemas_released == 0);
        return 0;
    }
    HOLDS(!maker.is_bad && array.release == nullptr && schema.release == nullptr && maker.schemas_released == 1);
    fuzz::goes_round(*c);
    // Before nulls are counted, which run ends may not have.
    fuzz::goes_round(c->slice(c->length() / 2, c->length() / 3));
    if (!maker.is_lying) {
        bool const is_whole = is_valid(*c);
        if (c->length() > 2 && is_whole) HOLDS(is_valid(c->slice(1, c->length() - 2)));
        if (c->length() >= 4096) join(*c);
        else use(*c, is_whole);
        // Slices stay within the memory of the column only if it is consistent.
        if (is_whole && c->length() > 0 && c->length() < 4096) copy(*c);
        read(*c);
    }
    HOLDS(maker.arrays_released == 0);
    c.reset();
    HOLDS(maker.arrays_released == 1);
    return 0;
}
