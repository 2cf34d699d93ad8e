#include <minitensor/number.hpp>
#include <minitensor/ops/copy.hpp>
#include <minitensor/ops/print.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace mt {
namespace {

constexpr std::int64_t summarised_above = 1000;
constexpr std::int64_t edge = 3;
constexpr std::size_t shown_at_most = 10000;

/// Returns the shortest text that is parsed as the same number.
std::string text(double x, bool is_double, bool complex_part = false) {
    if (std::isnan(x)) return "nan";
    if (std::isinf(x)) return x < 0 ? "-inf" : "inf";
    char digits[64];
    auto const write = [&](auto v) {
        // As in Python: exponents for large and small numbers.
        bool const plain = v == 0 || (std::fabs(v) >= 1e-4 && std::fabs(v) < 1e16);
        auto const format = plain ? std::chars_format::fixed : std::chars_format::scientific;
        return std::to_chars(digits, digits + sizeof digits, v, format).ptr;
    };
    auto* const end = is_double ? write(x) : write(static_cast<float>(x));
    std::string s{digits, end};
    if (!complex_part && s.find_first_of(".e") == std::string::npos) s += ".0";
    return s;
}

std::string text(dtype type, number const& value) {
    return std::visit(
        [&]<class T>(T v) -> std::string {
            if constexpr (std::is_same_v<T, bool>) {
                return v ? "True" : "False";
            } else if constexpr (std::is_same_v<T, double>) {
                return text(v, type.bits == 64);
            } else if constexpr (std::is_same_v<T, std::complex<double>>) {
                auto const imag = text(v.imag(), type.bits == 128, true);
                bool const sign = imag.front() == '-';
                return text(v.real(), type.bits == 128, true) + (sign ? "" : "+") + imag + "j";
            } else {
                return std::to_string(v);
            }
        },
        value);
}

std::string list(std::vector<std::int64_t> const& values) {
    std::string s = "(";
    for (std::size_t i = 0; i < values.size(); ++i)
        s += (i == 0 ? "" : ", ") + std::to_string(values[i]);
    return s + (values.size() == 1 ? ",)" : ")");
}

class printer {
   public:
    explicit printer(tensor const& t) : t_{t}, summarised_{t.size() > summarised_above} {}

    std::string values() {
        std::size_t count = 1;
        for (std::size_t i = 0; i < t_.ndim(); ++i) {
            count *= shown(i).size();
            if (count > shown_at_most)
                return "...";  // too many dimensions to print even the first and last elements of each
        }
        visit(0, 0, [this](std::string const& s) { width_ = std::max(width_, s.size()); });
        print(0, 0);
        return std::move(out_);
    }

   private:
    [[nodiscard]] bool cut(std::size_t dimension) const {
        return summarised_ && t_.shape()[dimension] > 2 * edge;
    }

    /// Returns the printed indices of a dimension; −1 stands for the omitted ones.
    [[nodiscard]] std::vector<std::int64_t> shown(std::size_t dimension) const {
        std::vector<std::int64_t> indices;
        auto const n = t_.shape()[dimension];
        for (std::int64_t i = 0; i < n; ++i) {
            indices.push_back(i);
            if (cut(dimension) && i == edge - 1) {
                indices.push_back(-1);
                i = n - edge - 1;
            }
        }
        return indices;
    }

    [[nodiscard]] std::string at(std::int64_t offset) const {
        auto const bit = offset * t_.itemsize_bits();
        return text(t_.dtype(), decode(t_.dtype(), load(t_.dtype(), t_.data(), bit)));
    }

    template <class F>
    void visit(std::size_t dimension, std::int64_t offset, F const& f) const {
        if (dimension == t_.ndim()) return f(at(offset));
        for (auto const i : shown(dimension)) {
            if (i >= 0) visit(dimension + 1, offset + i * t_.strides()[dimension], f);
        }
    }

    void print(std::size_t dimension, std::int64_t offset) {
        if (dimension == t_.ndim()) {
            auto const s = at(offset);
            out_.append(t_.ndim() == 0 ? 0 : width_ - s.size(), ' ').append(s);
            return;
        }
        out_ += '[';
        bool first = true;
        for (auto const i : shown(dimension)) {
            if (!first) {
                out_ += ',';
                auto const blank = t_.ndim() - dimension - 1;
                if (blank == 0) out_ += ' ';
                out_.append(blank, '\n');
                if (blank != 0) out_.append(std::size_t{8} + dimension, ' ');  // under "Tensor(["
            }
            first = false;
            if (i < 0) {
                out_ += "...";
            } else {
                print(dimension + 1, offset + i * t_.strides()[dimension]);
            }
        }
        out_ += ']';
    }

    tensor const& t_;
    bool summarised_;
    std::size_t width_ = 0;
    std::string out_;
};

}  // namespace

std::string to_string(tensor const& t) {
    std::string s = "Tensor(";
    if (t.size() == 0) {
        s += "[], ";
    } else if (host_accessible(t.device())) {
        s += printer{on_host(t)}.values() + ", ";
    }
    s += "shape=" + list(t.shape()) + ", dtype=" + name(t.dtype()) + ", device=" + name(t.device());
    return s + (t.readonly() ? ", readonly)" : ")");
}

}  // namespace mt
