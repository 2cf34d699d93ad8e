// The adapter for at::Tensor passes the kit.
#include "numbered.hpp"

#include <ferry/exchange/borrow.hpp>
#include <ferry/adapters/torch.hpp>
#include <ferry/exchange/from_dlpack.hpp>
#include <support/fails.hpp>
#include <support/no_owner.hpp>

#include <ATen/ATen.h>
#include <c10/core/impl/COW.h>

#include <cstdint>
#include <utility>

namespace {

struct maker {
    at::Tensor operator()(ferry::shape_view s, ferry::data_type type) const {
        return at::arange(1, count(s) + 1).to(ferry::detail::torch_type_of(type)).reshape({s.data(), s.size()});
    }
    at::Tensor strided(ferry::shape_view s) const {
        only(s.rank() > 1);
        return at::arange(0, count(s) + 1, at::kFloat)
            .slice(0, 1)
            .reshape({s.data(), s.size()})
            .transpose(0, 1)
            .contiguous()
            .transpose(0, 1);
    }

   private:
    static std::int64_t count(ferry::shape_view s) {
        std::int64_t n = 1;
        for (auto const extent : s) n *= extent;
        return n;
    }
};

template <class F>
void refused(ferry::errc code, F make, char const* cure) {
    support::fails(code, [&] { static_cast<void>(ferry::to_dlpack(make())); }, {cure});
}

}  // namespace

TEST_CASE("R24: exports and imports of at::Tensor pass") {
    auto names = of_handles;
    names.merge(
        std::set<std::string>{"R25 zero_d", "R53 adopt", "R62 adopt_moved", "R32 allocate_shape", "R62 failed_import"});
    keeps<at::Tensor>(maker{}, names);
}

TEST_CASE("R41: the error for a tensor that DLPack cannot express says what to call") {
    using ferry::errc;
    refused(errc::argument, [] { return at::ones({2}).requires_grad_(); }, "detach()");
    refused(errc::argument, [] { return at::ones({2}, at::kComplexFloat).conj(); }, "resolve_conj()");
    refused(errc::argument, [] { return at::imag(at::ones({2}, at::kComplexFloat).conj()); }, "resolve_neg()");
    refused(errc::argument, [] { return at::ones({2, 2}).to_sparse(); }, "to_dense()");
    refused(errc::argument, [] { return at::Tensor{}; }, "undefined");
    refused(errc::dtype, [] { return at::empty({2}, at::kQInt8); }, "at::kByte");
}

TEST_CASE("R26: a tensor with elements and without memory is rejected, at any storage offset") {
    using ferry::errc;
    auto const freed = [](std::int64_t first) {
        at::Tensor const t = at::ones({8}).slice(0, first);
        t.storage().unsafeGetStorageImpl()->set_nbytes(0);
        t.storage().set_data_ptr_noswap(at::DataPtr{nullptr, at::kCPU});
        return t;
    };
    for (std::int64_t const first : {0, 3}) {
        refused(errc::null_data, [&] { return freed(first); }, "no memory");
        refused(errc::null_data, [&] { return at::_efficientzerotensor({8}).slice(0, first); }, "no memory");
    }
    auto const empty = ferry::to_dlpack(freed(8));
    CHECK(empty.view().is_empty());
    auto const copy = ferry::to_dlpack(at::_efficientzerotensor({8}).slice(0, 3).clone());
    auto const elements = copy.as<float, 1>();
    CHECK(elements(4) == 0);
}

TEST_CASE("R32: a tensor with elements beyond the end of its storage is rejected") {
    auto const within = [](at::Tensor t, std::size_t bytes) {
        t.storage().set_nbytes(bytes);  // as after resize_(), which also allocates
        return t;
    };
    auto const whole = [] { return at::arange(32, at::kFloat); };
    auto const odd = [&] { return whole().slice(0, 1, 32, 2); };
    auto const part = [&] { return whole().slice(0, 8, 16); };
    auto const repeated = [&] { return whole().slice(0, 0, 4).expand({3, 4}); };
    CHECK_FALSE(ferry::to_dlpack(within(whole(), 128)).is_copied());
    CHECK_FALSE(ferry::to_dlpack(within(odd(), 128)).is_copied());
    CHECK_FALSE(ferry::to_dlpack(within(part(), 64)).is_copied());
    CHECK_FALSE(ferry::to_dlpack(within(repeated(), 16)).is_copied());
    refused(ferry::errc::null_data, [&] { return within(whole(), 127); }, "beyond the end of its storage");
    refused(ferry::errc::null_data, [&] { return within(odd(), 127); }, "beyond the end of its storage");
    refused(ferry::errc::null_data, [&] { return within(part(), 63); }, "beyond the end of its storage");
    refused(ferry::errc::null_data, [&] { return within(repeated(), 15); }, "beyond the end of its storage");
}

TEST_CASE("R28: negative strides are rejected, and a copy is accepted") {
    float values[3] = {3, 2, 1};
    std::int64_t const shape[1] = {3}, backwards[1] = {-1};
    auto const foreign = [&] {
        return ferry::make_managed(support::no_owner{}, ferry::tensor_view{values + 2, shape, backwards});
    };
    support::fails(ferry::errc::strides, [&] { static_cast<void>(ferry::from_dlpack<at::Tensor>(foreign())); },
                   {"R28", "copy"});
    auto const copy = ferry::from_dlpack<at::Tensor>(foreign(), {.copy = ferry::copy_policy::always});
    CHECK(copy[0].item<float>() == 1);
}

TEST_CASE("R11: a const tensor with copy-on-write storage is exported read-only, and keeps sharing its storage") {
    auto const shares = [](at::Tensor const& t) { return c10::impl::cow::is_cow_data_ptr(t.storage().data_ptr()); };
    at::Tensor original = at::arange(1, 7, at::kFloat).reshape({2, 3});
    at::Tensor clone = at::_lazy_clone(original);
    REQUIRE(shares(clone));
    {
        auto const shared = ferry::to_dlpack(std::as_const(clone));
        CHECK(shared.is_read_only());
        CHECK(shared.view().data() == original.const_data_ptr());
        CHECK(shares(clone));
        clone.fill_(0);  // neither the exported elements nor those of `original` change
        clone = at::Tensor{};
        original = at::Tensor{};
        auto const elements = shared.as<float const, 2>();
        CHECK(elements(0, 0) == 1);
        CHECK(elements(1, 2) == 6);
    }
    original = at::ones({2});
    clone = at::_lazy_clone(original);
    auto const lent = ferry::borrow(std::as_const(clone));
    CHECK(lent.view().is_read_only());
    CHECK(shares(clone));
    auto const copy = ferry::to_dlpack(std::as_const(clone), {.copy = ferry::copy_policy::always});
    CHECK_FALSE(copy.is_read_only());
    CHECK(shares(clone));

    auto const writable = ferry::to_dlpack(clone);  // as PyTorch's own export: the storage is no longer shared
    CHECK_FALSE(writable.is_read_only());
    CHECK_FALSE(shares(clone));
    CHECK(writable.view().data() == clone.const_data_ptr());
    CHECK(clone.const_data_ptr() != original.const_data_ptr());
    CHECK_FALSE(ferry::to_dlpack(at::_lazy_clone(original)).is_read_only());
}
