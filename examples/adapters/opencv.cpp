// Exports and imports OpenCV images: channels are the last dimension, and tensors share the reference count of the matrix.
#include <ferry/adapters/opencv.hpp>
#include <ferry/ferry.hpp>

#include <opencv2/core.hpp>

#include <cstdint>
#include <utility>

#undef NDEBUG  // the program is a test
#include <cassert>

int main() {
    cv::Mat image(480, 640, CV_8UC3, cv::Scalar(1, 2, 3));
    // [opencv]
    cv::Mat const face = image(cv::Rect(100, 50, 64, 64));                             // rows with gaps between them
    ferry::managed_tensor t = ferry::to_dlpack(ferry::shaped{face});                   // (64, 64, 3), one more reference
    auto const back = ferry::from_dlpack<ferry::shaped<cv::Mat>>(std::move(t)).get();  // a cv::Mat of three channels
    // [/opencv]
    assert(back.data == face.data && back.channels() == 3 && back.step[0] == image.step[0]);
    assert((back.at<cv::Vec3b>(3, 4)[2] == 3));
}
