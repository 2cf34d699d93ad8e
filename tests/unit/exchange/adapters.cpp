// Forms of adapters: traits, members, and both.
#include <ferry/exchange/from_dlpack.hpp>
#include <ferry/exchange/borrow.hpp>
#include <ferry/exchange/to_dlpack.hpp>
#include <ferry/tensor/make_managed.hpp>
#include <support/fails.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace {

using ferry::errc;
using ferry::managed_tensor;
using ferry::tensor_view;

int live = 0;

/// A type with a member ferry_view and no specialisation.
struct with_member {
    std::array<float, 4> values{1, 2, 3, 4};
    std::array<std::int64_t, 2> shape{2, 2};
    with_member() { ++live; }
    with_member(with_member&& other) noexcept : values{other.values} { ++live; }
    with_member(with_member const& other) : values{other.values} { ++live; }
    ~with_member() { --live; }
    tensor_view ferry_view() { return {values.data(), shape}; }
    tensor_view ferry_view() const { return {values.data(), shape}; }
};

/// array_traits takes precedence over the member.
struct with_both {
    float mine = 1, theirs = 2;
    tensor_view ferry_view() { return {&theirs, {}}; }
};

/// A member ferry_view, and traits that add `share`.
struct with_member_and_share {
    std::shared_ptr<float> value = std::make_shared<float>(3.0f);
    tensor_view ferry_view() const { return {value.get(), {}}; }
};

/// `share` returns a read-only snapshot.
struct frozen_handle {
    std::shared_ptr<float> value;
    tensor_view ferry_view() const { return {static_cast<float const*>(value.get()), {}}; }
};
struct copy_on_write {
    std::shared_ptr<float> value = std::make_shared<float>(4.0f);
    tensor_view ferry_view() { return {value.get(), {}}; }
    tensor_view ferry_view() const { return {static_cast<float const*>(value.get()), {}}; }
};

/// Owned by an intrusive pointer; the array cannot be copied or moved.
struct counted {
    int count = 0;
    float values[3] = {7, 8, 9};
    std::int64_t shape[1] = {3};
    static inline int alive = 0;
    counted() { ++alive; }
    ~counted() { --alive; }
    counted(counted const&) = delete;
};
class intrusive {
   public:
    explicit intrusive(counted* c) : c_{c} { ++c_->count; }
    intrusive(intrusive const& other) : intrusive{other.c_} {}
    intrusive(intrusive&& other) noexcept : c_{std::exchange(other.c_, nullptr)} {}
    intrusive& operator=(intrusive) = delete;
    ~intrusive() {
        if (c_ != nullptr && --c_->count == 0) delete c_;
    }
    tensor_view ferry_view() const { return {c_->values, c_->shape}; }
    counted* get() const { return c_; }

   private:
    counted* c_;
};

}  // namespace

template <>
struct ferry::array_traits<with_both> {
    static tensor_view view(with_both& a) { return {&a.mine, {}}; }
};
template <>
struct ferry::array_traits<with_member_and_share> {
    static with_member_and_share share(with_member_and_share const& a) { return a; }
};
template <>
struct ferry::array_traits<copy_on_write> {
    static frozen_handle share(copy_on_write const& a) { return {a.value}; }
};
template <>
struct ferry::array_traits<counted> {
    static tensor_view view(counted& a) { return {a.values, a.shape}; }
    static tensor_view view(counted const& a) { return {static_cast<float const*>(a.values), a.shape}; }
    static intrusive share(counted const& a) { return intrusive{const_cast<counted*>(&a)}; }
};

TEST_CASE("R7: an array with a member ferry_view is exported, and its elements move with it") {
    {
        with_member a;
        auto const got = ferry::to_dlpack(std::move(a));
        CHECK(got.view().data() != a.values.data());
        CHECK(got.as<float, 2>()(1, 1) == 4.0f);
        CHECK(got.view().shape().data() != a.shape.data());
    }
    CHECK(live == 0);
}

TEST_CASE("R11: a const array with a member ferry_view is exported read-only") {
    with_member const a;
    CHECK(ferry::view_of(a).is_read_only());
    auto const lent = ferry::borrow(a);
    CHECK(lent.view().is_read_only());
    auto const moved = ferry::to_dlpack(with_member{a});
    CHECK(!moved.is_read_only());
}

TEST_CASE("D12: array_traits takes precedence over a member ferry_view, and can add members to it") {
    with_both a;
    CHECK(ferry::view_of(a).data() == &a.mine);
    with_member_and_share b;
    auto const got = ferry::to_dlpack(b);
    CHECK(b.value.use_count() == 2);
    CHECK(got.as<float, 0>()() == 3.0f);
}

TEST_CASE("R11: the tensor is read-only if share returns a read-only owner") {
    copy_on_write a;
    CHECK(!ferry::view_of(a).is_read_only());
    CHECK(ferry::to_dlpack(a).is_read_only());
    CHECK(!ferry::to_dlpack(std::move(a)).is_read_only());
}

TEST_CASE("R6: an intrusive owner is released with the tensor") {
    {
        intrusive const a{new counted};
        {
            auto const got = ferry::to_dlpack(*a.get());
            CHECK(a.get()->count == 2);
            CHECK(got.as<float, 1>()(2) == 9.0f);
            CHECK(ferry::to_dlpack(std::as_const(*a.get())).is_read_only());
        }
        CHECK(a.get()->count == 1);
    }
    CHECK(counted::alive == 0);
}

TEST_CASE("R6: smart pointers own tensors") {
    std::int64_t const shape[] = {2};
    auto shared = std::make_shared<std::vector<float>>(2, 5.0f);
    tensor_view const of_shared{shared->data(), shape};
    auto const a = ferry::make_managed(std::shared_ptr<void>{shared}, of_shared);
    CHECK(shared.use_count() == 2);
    auto unique = std::make_unique<float[]>(2);
    unique[1] = 6;
    tensor_view const of_unique{unique.get(), shape};
    auto const b = ferry::make_managed(std::move(unique), of_unique);
    CHECK(b.as<float, 1>()(1) == 6.0f);
}

TEST_CASE("R65: a tensor can be destroyed by an owner other than the one that created it") {
    intrusive const a{new counted};
    managed_tensor kept;
    {
        auto got = ferry::to_dlpack(*a.get());
        kept = ferry::from_dlpack<managed_tensor>(std::move(got));
    }
    CHECK(a.get()->count == 2);
    auto* const raw = kept.release();
    raw->deleter(raw);
    CHECK(a.get()->count == 1);
}
