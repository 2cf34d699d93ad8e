// ferry: the memory of an export. One allocation contains all structs of a tree, and the last release frees it.
#pragma once

#include <ferry/abi/arrow.hpp>
#include <ferry/column/bitmap.hpp>
#include <ferry/column/layout.hpp>
#include <ferry/column/view.hpp>

#include <atomic>  // children may be moved out and released on other threads
#include <cstddef>
#include <cstdint>
#include <memory>  // shared ownership of the buffers
#include <new>
#include <utility>

namespace FERRY_NAMESPACE::detail {

/// Determines the first item of an exported array. The offset of a struct, sparse union or fixed-size list applies to
/// its children, and several consumers ignore it; therefore, the children are sliced, and the offset is 0. A validity
/// that then begins within a byte is copied. If the host must not read it, the array begins with the first item of that
/// byte, and has an offset below 8.
///
/// Nodes of other types keep their offset, which applies to their own buffers. An empty part of a child has offset 0,
/// because a consumer may treat a buffer without items as empty. With an offsets buffer it keeps its offset, because
/// consumers read the first offset, and the offsets before it may be invalid.
struct export_rule {
    bool may_read = false;  ///< whether the host may read the validity

    /// \return  number of items at the front of the buffers that are omitted
    [[nodiscard]] std::int64_t skipped(column_view c) const noexcept {
        if (!slices_children(c.type().id)) return 0;
        return may_read || c.is_without_nulls() ? c.offset() : c.offset() / 8 * 8;
    }
    /// \return  bytes of the copied validity, in whole words; 0 if it is not copied
    [[nodiscard]] std::size_t bitmap_size(column_view c) const noexcept {
        if (skipped(c) % 8 == 0 || c.is_without_nulls()) return 0;
        return static_cast<std::size_t>((bitmap_bytes(c.length()) + 7) / 8 * 8);
    }
    [[nodiscard]] column_view child(column_view c, int i) const noexcept {
        if (!slices_children(c.type().id)) return child_of(c, i);
        auto const part = part_of_child(c, i, skipped(c));
        auto const layout = part.layout();
        if (part.length() != 0 || layout.buffer_count < 2) return part;
        bool const has_offsets = layout.buffers[1].kind == buffer_kind::offsets && part.buffers()[1].data != nullptr;
        return {part.node(), has_offsets ? part.offset() : 0, 0};
    }
};

/// The head of the allocation. It is followed by the structs except the root, which the caller provides, by the
/// pointers to children, and by the other data of the structs. Each struct that is not released counts as a reference,
/// so it can be moved out of its parent and released alone ("Moving child arrays"). `Struct` is ArrowArray or
/// ArrowSchema.
template <class Struct>
struct export_block {
    std::atomic<std::int64_t> unreleased;
    std::shared_ptr<void const> owner;

    static void release(Struct* s) noexcept {
        auto* const block = static_cast<export_block*>(s->private_data);
        std::int64_t const released = block->release_tree(*s);
        if (block->unreleased.load(std::memory_order_acquire) != released &&
            block->unreleased.fetch_sub(released, std::memory_order_acq_rel) != released)
            return;
        block->~export_block();
        ::operator delete(block);
    }

   private:
    /// Marks the remaining structs of a tree as released, and returns their number.
    [[nodiscard]] std::int64_t release_tree(Struct& s) noexcept {
        std::int64_t released = 1;
        for (std::int64_t i = 0; i < s.n_children; ++i) released += release_child(*s.children[i]);
        if (s.dictionary != nullptr) released += release_child(*s.dictionary);
        s.release = nullptr;
        return released;
    }
    [[nodiscard]] std::int64_t release_child(Struct& s) noexcept {
        if (s.release == nullptr) return 0;  // moved out, or released alone
        if (s.release == &release && s.private_data == this) return release_tree(s);
        s.release(&s);  // the consumer replaced the child
        return 0;
    }
};

/// Allocates the memory of an export, and returns its parts one after the other.
template <class Struct>
class export_memory {
   public:
    /// \throws std::bad_alloc  when an allocation fails
    export_memory(std::size_t structs, std::size_t children, std::size_t more_bytes,
                  std::shared_ptr<void const> owner) {
        static_assert(sizeof(export_block<Struct>) % alignof(Struct) == 0 && alignof(Struct) == alignof(void*));
        auto* const memory = static_cast<unsigned char*>(::operator new(
            sizeof(export_block<Struct>) + (structs - 1) * sizeof(Struct) + children * sizeof(Struct*) + more_bytes));
        block_ = ::new (static_cast<void*>(memory))
            export_block<Struct>{{static_cast<std::int64_t>(structs)}, std::move(owner)};
        structs_ = memory + sizeof(export_block<Struct>);
        children_ = structs_ + (structs - 1) * sizeof(Struct);
        more_ = children_ + children * sizeof(Struct*);
    }
    [[nodiscard]] export_block<Struct>* block() const noexcept { return block_; }
    [[nodiscard]] Struct* next_struct() noexcept {
        return ::new (std::exchange(structs_, structs_ + sizeof(Struct))) Struct{};
    }
    [[nodiscard]] Struct** next_children(std::size_t n) noexcept {
        return reinterpret_cast<Struct**>(std::exchange(children_, children_ + n * sizeof(Struct*)));
    }
    [[nodiscard]] unsigned char* next_bytes(std::size_t n) noexcept { return std::exchange(more_, more_ + n); }

    /// Sets the children, the dictionary and the release callback of a struct. Calls `write(column, struct)` for each
    /// child, as `rule` slices it, and for the dictionary.
    template <class Write>
    void link(column_view c, export_rule rule, Struct& out, Write write) {
        out.n_children = c.child_count();
        if (out.n_children != 0) out.children = next_children(static_cast<std::size_t>(out.n_children));
        for (int i = 0; i < c.child_count(); ++i) {
            out.children[i] = next_struct();
            write(rule.child(c, i), *out.children[i]);
        }
        if (c.has_dictionary()) {
            out.dictionary = next_struct();
            write(dictionary_of(c), *out.dictionary);
        }
        out.release = &export_block<Struct>::release;
        out.private_data = block_;
    }

   private:
    export_block<Struct>* block_;
    unsigned char *structs_, *children_, *more_;
};

/// The numbers of structs, pointers and bytes in the export of a tree.
struct export_size {
    std::size_t structs = 0, children = 0, buffers = 0, bitmaps = 0, text = 0;

    explicit export_size(column_view c, export_rule rule) noexcept { add(c, rule); }
    void add(column_view c, export_rule rule) noexcept {
        auto const& node = c.node();
        ++structs;
        children += node.children.size();
        buffers += node.buffers.size();
        bitmaps += rule.bitmap_size(c);
        text += node.format.size() + node.name.size() + node.metadata.size() + 2;  // two terminators
        for (int i = 0; i < c.child_count(); ++i) add(rule.child(c, i), rule);
        if (c.has_dictionary()) add(dictionary_of(c), rule);
    }
};

}  // namespace FERRY_NAMESPACE::detail
