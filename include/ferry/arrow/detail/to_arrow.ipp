// ferry: the engine of arrow/to_arrow.hpp.
#pragma once

#include <ferry/arrow/to_arrow.hpp>

#include <ferry/arrow/detail/export_block.hpp>
#include <ferry/base/error.hpp>
#include <ferry/column/detail/bits.hpp>
#include <ferry/column/layout.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>  // shared ownership of the buffers
#include <string_view>
#include <utility>

namespace FERRY_NAMESPACE {
namespace detail {

/// Zeros, for an empty column without offsets or lengths.
alignas(64) inline constexpr unsigned char zero_offsets[64]{};

/// Writes the arrays of a tree.
class array_writer {
   public:
    array_writer(export_size const& size, export_rule rule, std::shared_ptr<void const> owner)
        : memory_{size.structs, size.children, size.buffers * sizeof(void const*) + size.bitmaps, std::move(owner)},
          rule_{rule} {}

    void write(column_view c, ArrowArray& out) {
        auto const buffers = c.buffers();
        auto const skipped = rule_.skipped(c);
        out.length = c.length();
        out.null_count = c.known_null_count();
        out.offset = c.offset() - skipped;
        out.n_buffers = static_cast<std::int64_t>(buffers.size());
        if (!buffers.empty())
            out.buffers = reinterpret_cast<void const**>(memory_.next_bytes(buffers.size() * sizeof(void const*)));
        for (std::size_t i = 0; i < buffers.size(); ++i) out.buffers[i] = buffers[i].data;
        if (skipped != 0) out.buffers[0] = begin_of(c, skipped);
        if (c.length() == 0 && is_host_accessible(c.device())) complete(c.layout(), out);
        memory_.link(c, rule_, out, [this](column_view below, ArrowArray& to) { write(below, to); });
    }

   private:
    /// The validity or the type ids without the items in front.
    [[nodiscard]] void const* begin_of(column_view c, std::int64_t skipped) noexcept {
        auto const* const begin = static_cast<std::byte const*>(c.buffers()[0].data);
        if (c.type().id == type_id::sparse_union) return c.length() == 0 ? begin : begin + skipped;
        if (c.is_without_nulls()) return nullptr;
        auto const size = rule_.bitmap_size(c);
        if (size == 0) return begin + skipped / 8;
        auto* const bits = memory_.next_bytes(size);
        std::memset(bits, 0, size);
        copy_bits(c.validity(), bits);
        return bits;
    }
    /// Adds the buffers that an empty column may lack but consumers read: the first offset, and the lengths of the data
    /// buffers.
    static void complete(column_layout const& layout, ArrowArray& out) noexcept {
        if (layout.is_variadic && out.buffers[out.n_buffers - 1] == nullptr)
            out.buffers[out.n_buffers - 1] = zero_offsets;
        if (layout.buffer_count < 2 || layout.buffers[1].kind != buffer_kind::offsets || out.buffers[1] != nullptr)
            return;
        out.buffers[1] = zero_offsets;
        out.offset = 0;
    }

    export_memory<ArrowArray> memory_;
    export_rule rule_;
};

FERRY_INLINE ArrowArray make_array(column_view c, bool may_read, std::shared_ptr<void const> owner) {
    export_rule const rule{may_read};
    ArrowArray made{};
    array_writer{export_size{c, rule}, rule, std::move(owner)}.write(c, made);
    return made;
}

/// Writes the schemas of a tree.
class schema_writer {
   public:
    explicit schema_writer(export_size const& size) : memory_{size.structs, size.children, size.text, nullptr} {}

    void write(column_view c, ArrowSchema& out) {
        out.format = keep(c.format());
        out.name = keep(c.name());
        if (!c.metadata().empty()) out.metadata = copy(c.metadata(), 0);
        out.flags = c.flags();
        memory_.link(c, {}, out, [this](column_view below, ArrowSchema& to) { write(below, to); });
    }

   private:
    [[nodiscard]] char const* keep(std::string_view text) noexcept { return copy(text, 1); }
    [[nodiscard]] char const* copy(std::string_view text, std::size_t end) noexcept {
        auto* const begin = reinterpret_cast<char*>(memory_.next_bytes(text.size() + end));
        std::memset(begin + text.copy(begin, text.size()), 0, end);
        return begin;
    }

    export_memory<ArrowSchema> memory_;
};

}  // namespace detail

FERRY_INLINE void to_arrow(column const& c, ArrowArray* out, std::source_location where) {
    if (out == nullptr)
        detail::fail(errc::argument, "ferry::to_arrow", message{"the ArrowArray to write to is null: pass a struct"},
                     where);
    if (!is_host_accessible(c.device()))
        detail::fail(errc::not_accessible, "ferry::to_arrow",
                     message{"the column is on "} << name(c.device().type) << ":" << c.device().id
                                                  << ": export it as an ArrowDeviceArray, or move it with to()",
                     where);
    c.view().require_host("ferry::to_arrow", where);  // of the children, which may be on other devices
    *out = detail::make_array(c.view(), true, c.owner());
}

FERRY_INLINE void to_arrow_schema(column_view c, ArrowSchema* out, std::source_location where) {
    if (out == nullptr)
        detail::fail(errc::argument, "ferry::to_arrow_schema",
                     message{"the ArrowSchema to write to is null: pass a struct"}, where);
    ArrowSchema made{};
    detail::schema_writer{detail::export_size{c, {}}}.write(c, made);
    *out = made;
}

}  // namespace FERRY_NAMESPACE
