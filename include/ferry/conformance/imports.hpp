// ferry: what becomes of foreign tensors that an array takes over: judged on array_traits<T>::adopt.
#pragma once

#include <ferry/conformance/detail/import.hpp>
#include <ferry/exchange/to_dlpack.hpp>

#include <concepts>
#include <cstring>
#include <utility>

namespace ferry::inline v0::conformance::detail {

/// Others may rewrite a struct that they handed out, and nobody may write into one that was received (R33).
template <class Array>
outcome judge_struct(foreign& t, message const& what, bool rewrite) {
    DLManagedTensorVersioned const before = *t.raw();
    tensor_view const wanted = t.tensor();
    outcome const found = import_one<Array>(t, what, [&](Array& a) -> outcome {
        if (std::memcmp(t.raw(), &before, sizeof before) != 0)
            return broken(message{what} << ": adopt wrote into the struct");
        if (!rewrite) return kept();
        auto& raw = *t.raw();
        raw.dl_tensor = DLTensor{};
        auto const got = same_tensor(view_of(a), wanted, message{what} << ", whose struct was rewritten later");
        raw.dl_tensor = before.dl_tensor;
        return got;
    });
    return found;
}

/// The array moves, and is exported again: the tensor is released when the last of it goes.
template <class Array>
outcome judge_moved_import(foreign& t, message const& what) {
    if constexpr (!std::move_constructible<Array>) {
        return not_applicable("the type cannot be moved");
    } else {
        box<Array> a, b;
        if (!a.construct([&]() -> Array { return take_over<Array>(t); })) return judge_refusal(t, what);
        static_cast<void>(b.construct([&]() -> Array { return std::move(*a); }));
        a.destroy();
        if (t.releases() != 0)
            return broken(message{what} << ": its deleter ran when the array that it had moved out of went");
        {
            tensor_view const v = view_of(*b);
            if (auto const same = same_tensor(v, t.tensor(), message{what} << ", after a move");
                same.found == verdict::broken)
                return same;
            auto const again = ferry::to_dlpack(std::move(*b));
            b.destroy();
            if (t.releases() != 0) return broken(message{what} << ": its deleter ran while it was exported again");
            if (again.is_copied())
                return broken(message{what} << ": it is IS_COPIED when exported again, and was not copied");
        }
        return t.releases() == 1
                   ? kept(what)
                   : broken(message{what} << ": its deleter ran " << t.releases() << " times after a re-export");
    }
}

template <class Array>
outcome judge_read_only_import(foreign& t, message const& what) {
    t.with_flags(flags::read_only);
    return import_one<Array>(t, what, [&](Array& a) -> outcome {
        if (view_of(a).is_read_only()) return kept(what);
        return broken(message{what} << ": the array may be written: keep the flag, or refuse the tensor");
    });
}

template <class Array, class Judge>
void judge_imports(Judge& judge) {
    taken const like = find_taken<Array>();
    auto const lying = [&](lie how, char const* words, std::int64_t offset = 0) {
        return [&like, how, words, offset] {
            return for_each_import<Array>(like, filled, [&](data_type type, shape_view shape) {
                foreign t{type, shape, how, offset};
                if (offset != 0) t.on(cpu, static_cast<std::byte*>(t.raw()->dl_tensor.data) - offset);
                return import_same<Array>(t, told(words, type, shape));
            });
        };
    };
    auto const with = [&](auto check, char const* words) {
        return [&like, check, words] {
            return for_each_import<Array>(like, filled, [&](data_type type, shape_view shape) {
                foreign t{type, shape};
                return check(t, told(words, type, shape));
            });
        };
    };
    judge("R53", "adopt", [&]() -> outcome {
        if (!like.is_any) return broken("adopt refused every tensor that it was offered: of 13 types and ranks 0 to 3");
        return lying(lie::compact, "compact")();
    });
    judge("R24", "adopt_strides", lying(lie::column_major, "column-major"));
    judge("R24", "adopt_null_strides", lying(lie::null_strides, "compact, stride-less"));
    judge("R28", "adopt_negative_strides", lying(lie::backwards, "backwards"));
    judge("R29", "adopt_broadcast", lying(lie::broadcast, "broadcast"));
    judge("R23", "adopt_byte_offset", lying(lie::compact, "offset", 64));
    judge("R11", "adopt_read_only", with(judge_read_only_import<Array>, "read-only"));
    judge("R62", "adopt_moved", with(judge_moved_import<Array>, "compact"));
    judge("R33", "adopt_writes_nothing",
          with([](foreign& t, message const& what) { return judge_struct<Array>(t, what, false); }, "compact"));
    judge("R33", "adopt_keeps_no_struct",
          with([](foreign& t, message const& what) { return judge_struct<Array>(t, what, true); }, "compact"));
    judge("R26", "adopt_empty", [&] {
        return for_each_import<Array>(like, empty, [](data_type type, shape_view shape) {
            foreign null{type, shape}, other{type, shape};
            outcome found = import_same<Array>(other, told("empty", type, shape));
            auto const without = import_same<Array>(null.on(cpu, nullptr), told("empty, address-less", type, shape));
            if (found.found == verdict::kept && without.found == verdict::not_applicable)
                return broken(message{without.evidence} << ", and takes it with an address");
            add(found, without);
            return found;
        });
    });
    judge("R25", "adopt_zero_d", [&] {
        return for_each_import<Array>(like, scalar, [](data_type type, shape_view shape) {
            foreign t{type, shape};
            t.raw()->dl_tensor.shape = nullptr;
            return import_same<Array>(t, told("compact", type, shape));
        });
    });
    judge("R16", "adopt_types", [&]() -> outcome {
        outcome found;
        auto const offer = [&](data_type type) {
            foreign t{type, *like.shape};
            add(found, import_same<Array>(t, told("compact", type, *like.shape)));
        };
        if (!like.is_any) return not_applicable("adopt takes none of the tensors that it was offered");
        for (auto const& type : offered_types) offer(type);
        for (auto const& type : odd_types) offer(type);
        return found;
    });
    judge("R34", "adopt_device", [&]() -> outcome {
        outcome found;
        if (!like.is_any) return not_applicable("adopt takes none of the tensors that it was offered");
        for (device const where :
             {device{device_type::cuda, 1}, device{device_type::rocm}, device{device_type::ext_dev, 3}}) {
            foreign t{like.type, *like.shape};
            t.on(where, t.raw()->dl_tensor.data);
            add(found, import_same<Array>(t, told(ferry::name(where.type), like.type, *like.shape)));
        }
        return found;
    });
}

}  // namespace ferry::inline v0::conformance::detail
