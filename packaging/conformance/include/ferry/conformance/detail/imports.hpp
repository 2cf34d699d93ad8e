// ferry: conformance checks of array_traits<T>::adopt, on tensors of another producer.
#pragma once

#include <ferry/conformance/detail/import.hpp>
#include <ferry/exchange/to_dlpack.hpp>

#include <concepts>
#include <cstdint>
#include <cstring>
#include <exception>
#include <iterator>
#include <utility>

namespace FERRY_NAMESPACE::conformance::detail {

/// Checks that adopt neither writes to the received struct nor reads it later, because the producer may change it
/// (R33).
template <class Array>
outcome check_struct(foreign& t, message const& what, bool rewrite) {
    DLManagedTensorVersioned const before = *t.raw();
    tensor_view const wanted = t.tensor();
    return import_one<Array>(t, what, [&](Array& a) -> outcome {
        if (std::memcmp(t.raw(), &before, sizeof before) != 0)
            return broken(message{what} << ": adopt wrote to the DLManagedTensorVersioned");
        if (!rewrite) return kept();
        auto& raw = *t.raw();
        raw.dl_tensor = DLTensor{};
        auto const got = same_tensor(view_of(a), wanted, message{what} << ", after its DLTensor was overwritten");
        raw.dl_tensor = before.dl_tensor;
        return got;
    });
}

/// Checks that an imported array can be moved and exported again, and that the deleter runs once, when the last owner
/// is destroyed.
template <class Array>
outcome check_moved_import(foreign& t, message const& what) {
    if constexpr (!std::move_constructible<Array>) {
        return not_applicable("the type cannot be moved");
    } else {
        box<Array> a, b;
        if (!construct_from(t, a)) return check_refusal(t, what);
        static_cast<void>(b.construct([&]() -> Array { return std::move(*a); }));
        a.destroy();
        if (t.releases() != 0)
            return broken(message{what} << ": its deleter ran when the moved-from array was destroyed");
        auto const same = same_tensor(view_of(*b), t.tensor(), message{what} << ", after a move");
        if (same.found == verdict::broken) return same;
        {
            auto const again = ferry::to_dlpack(std::move(*b));
            b.destroy();
            if (t.releases() != 0) return broken(message{what} << ": its deleter ran during a second export");
            if (again.is_copied())
                return broken(message{what} << ": the second export has IS_COPIED set, but was not copied");
        }
        return t.releases() == 1 ? kept(what)
                                 : broken(message{what} << ": its deleter ran " << t.releases()
                                                        << " times after a second export, expected once");
    }
}

template <class Array>
outcome check_read_only_import(foreign& t, message const& what) {
    t.with_flags(flags::read_only);
    return import_one<Array>(t, what, [&](Array& a) -> outcome {
        if (view_of(a).is_read_only()) return kept(what);
        return broken(message{what} << ": the array is writable: keep READ_ONLY, or throw for read-only tensors");
    });
}

/// Describes the failure of an adapter that accepts no tensor, with its error for the type of the maker's arrays.
template <class Array>
message refusal_of_all(produced const& made) {
    message what{"adopt threw for every tensor: "};
    what << std::int64_t{std::size(offered_types)}
         << " data types, ranks 0 to 3, and the type and shape of an array that make returned";
    if (!made.is_any) return what;
    foreign t{made.type, made.shape};
    try {
        static_cast<void>(import_foreign<Array>(t));
    } catch (std::exception const& e) {
        what << "; the error for type " << made.type << " was: " << e.what();
    } catch (...) {
    }
    return what;
}

template <class Array, class Recorder>
void check_imports(produced const& made, Recorder& record) {
    accepted const like = find_accepted<Array>(made);
    auto const with_layout = [&](element_layout how, char const* words, std::int64_t offset = 0) {
        return [&like, how, words, offset] {
            return for_each_import<Array>(like, filled, [&](data_type type, shape_view shape) {
                foreign t{type, shape, how, offset};
                if (offset != 0) t.on(cpu, static_cast<std::byte*>(t.raw()->dl_tensor.data) - offset);
                return import_same<Array>(t, describe(words, type, shape));
            });
        };
    };
    auto const with = [&](auto check, char const* words) {
        return [&like, check, words] {
            return for_each_import<Array>(like, filled, [&](data_type type, shape_view shape) {
                foreign t{type, shape};
                return check(t, describe(words, type, shape));
            });
        };
    };
    record("R53", "adopt", [&]() -> outcome {
        if (!like.is_any) return broken(refusal_of_all<Array>(made));
        return with_layout(element_layout::compact, "compact")();
    });
    record("R24", "adopt_strides", with_layout(element_layout::column_major, "column-major"));
    record("R24", "adopt_null_strides", with_layout(element_layout::null_strides, "compact, null-strides"));
    record("R28", "adopt_negative_strides", with_layout(element_layout::backwards, "negative-stride"));
    record("R29", "adopt_broadcast", with_layout(element_layout::broadcast, "broadcast"));
    record("R23", "adopt_byte_offset", with_layout(element_layout::compact, "offset", 64));
    record("R11", "adopt_read_only", with(check_read_only_import<Array>, "read-only"));
    record("R62", "adopt_moved", with(check_moved_import<Array>, "compact"));
    record("R33", "adopt_writes_nothing",
           with([](foreign& t, message const& what) { return check_struct<Array>(t, what, false); }, "compact"));
    record("R33", "adopt_keeps_no_struct",
           with([](foreign& t, message const& what) { return check_struct<Array>(t, what, true); }, "compact"));
    record("R26", "adopt_empty", [&] {
        return for_each_import<Array>(like, empty, [](data_type type, shape_view shape) {
            foreign null{type, shape}, other{type, shape};
            outcome found = import_same<Array>(other, describe("empty", type, shape));
            auto const without = import_same<Array>(null.on(cpu, nullptr), describe("empty, null-data", type, shape));
            if (found.found == verdict::kept && without.found == verdict::not_applicable)
                return broken(message{without.evidence} << ", but accepts it with a data pointer");
            add(found, without);
            return found;
        });
    });
    record("R25", "adopt_zero_d", [&] {
        return for_each_import<Array>(like, scalar, [](data_type type, shape_view shape) {
            foreign t{type, shape};
            t.raw()->dl_tensor.shape = nullptr;
            return import_same<Array>(t, describe("compact", type, shape));
        });
    });
    record("R16", "adopt_types", [&]() -> outcome {
        outcome found;
        auto const offer = [&](data_type type) {
            if (!fits_sample(type, like.shape)) return;
            foreign t{type, like.shape};
            add(found, import_same<Array>(t, describe("compact", type, like.shape)));
        };
        if (!like.is_any) return not_applicable("adopt throws for every tensor of the kit");
        offer(like.type);
        for (auto const& type : offered_types) offer(type);
        return found;
    });
    record("R34", "adopt_device", [&]() -> outcome {
        outcome found;
        if (!like.is_any) return not_applicable("adopt throws for every tensor of the kit");
        for (device const dev :
             {device{device_type::cuda, 1}, device{device_type::rocm}, device{device_type::ext_dev, 3}}) {
            foreign t{like.type, like.shape};
            t.on(dev, t.raw()->dl_tensor.data);
            add(found, import_same<Array>(t, describe(ferry::name(dev.type), like.type, like.shape)));
        }
        return found;
    });
}

}  // namespace FERRY_NAMESPACE::conformance::detail
