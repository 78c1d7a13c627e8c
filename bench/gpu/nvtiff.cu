// nvTIFF from a path to device memory: the median of some runs, each with opening and closing, after one whose pixels are
// compared.
//
//     nvtiff RUNS FILE RASTER [FILE RASTER]...
//
// The last bytes of RASTER are the pixels that FILE was made of (so a .npy will do). One line of JSON for each file.

#include <cuda_runtime.h>
#include <nvtiff.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

namespace {

// What could not be done, by which call. Empty when all went well.
struct Failure {
  const char* call = nullptr;
  int status = 0;
  explicit operator bool() const { return call != nullptr; }
};

// The result of the decoder: memory that is kept from one run to the next, as the other engines keep theirs in a pool.
struct Canvas {
  void* pixels = nullptr;
  size_t capacity = 0;
  size_t bytes = 0;

  bool grow(size_t need) {
    bytes = need;
    if (need <= capacity) return true;
    cudaFree(pixels);
    capacity = cudaMalloc(&pixels, need) == cudaSuccess ? need : 0;
    if (capacity == 0) pixels = nullptr;
    return capacity != 0;
  }
};

Failure decode(nvtiffStream_t file, nvtiffDecoder_t decoder, Canvas& canvas, cudaStream_t stream) {
  nvtiffImageInfo_t info;
  if (nvtiffStatus_t status = nvtiffStreamGetImageInfo(file, 0, &info)) return {"nvtiffStreamGetImageInfo", status};
  size_t pitch = (static_cast<size_t>(info.image_width) * info.bits_per_pixel + 7) / 8;
  if (!canvas.grow(pitch * info.image_height)) return {"cudaMalloc", 1};
  nvtiffDecodeParams_t params;
  if (nvtiffStatus_t status = nvtiffDecodeParamsCreate(&params)) return {"nvtiffDecodeParamsCreate", status};
  nvtiffImage_t image = {};
  image.plane_data = &canvas.pixels;
  image.plane_pitch_bytes = &pitch;
  image.num_planes = 1;
  nvtiffStatus_t status = nvtiffDecode(file, decoder, params, &image, stream);
  cudaError_t error = cudaStreamSynchronize(stream);
  nvtiffDecodeParamsDestroy(params);
  if (status != NVTIFF_STATUS_SUCCESS) return {"nvtiffDecode", status};
  if (error != cudaSuccess) return {"cudaStreamSynchronize", error};
  return {};
}

Failure read(const char* path, nvtiffDecoder_t decoder, Canvas& canvas, cudaStream_t stream) {
  nvtiffStream_t file;
  if (nvtiffStatus_t status = nvtiffStreamOpenFromFile(path, &file)) return {"nvtiffStreamOpenFromFile", status};
  Failure failure = decode(file, decoder, canvas, stream);
  nvtiffStreamClose(file);
  return failure;
}

bool same(const Canvas& canvas, const char* raster) {
  std::ifstream in(raster, std::ios::binary | std::ios::ate);
  std::streamoff size = in.tellg();
  if (!in || size < static_cast<std::streamoff>(canvas.bytes)) return false;
  std::vector<char> due(canvas.bytes), got(canvas.bytes);
  in.seekg(size - static_cast<std::streamoff>(canvas.bytes));
  in.read(due.data(), static_cast<std::streamsize>(canvas.bytes));
  if (!in || cudaMemcpy(got.data(), canvas.pixels, canvas.bytes, cudaMemcpyDeviceToHost) != cudaSuccess) return false;
  return std::memcmp(due.data(), got.data(), canvas.bytes) == 0;
}

void fail(const char* path, const Failure& failure) {
  bool unsupported = std::strcmp(failure.call, "nvtiffDecode") == 0 && failure.status == NVTIFF_STATUS_TIFF_NOT_SUPPORTED;
  std::printf("{\"file\":\"%s\",\"error\":\"%s%s gives %d\"}\n", path, unsupported ? "unsupported: " : "", failure.call,
              failure.status);
}

void bench(const char* path, const char* raster, int runs, Canvas& canvas, cudaStream_t stream) {
  nvtiffDecoder_t decoder;
  if (nvtiffStatus_t status = nvtiffDecoderCreateSimple(&decoder, stream)) {
    return fail(path, {"nvtiffDecoderCreateSimple", status});
  }
  Failure failure = read(path, decoder, canvas, stream);
  bool sound = !failure && same(canvas, raster);
  std::vector<double> times;
  for (int i = 0; i < runs && !failure; i++) {
    auto begun = std::chrono::steady_clock::now();
    failure = read(path, decoder, canvas, stream);
    times.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begun).count());
  }
  nvtiffDecoderDestroy(decoder, stream);
  if (failure) return fail(path, failure);
  std::sort(times.begin(), times.end());
  std::printf("{\"file\":\"%s\",\"ms\":%.3f,\"sound\":%s}\n", path, times[times.size() / 2], sound ? "true" : "false");
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 4 || count % 2 != 0) return 2;
  int runs = std::max(1, std::atoi(arguments[1]));
  cudaStream_t stream;
  if (cudaStreamCreate(&stream) != cudaSuccess) return 1;
  std::printf("{\"version\":\"%d.%d.%d\"}\n", NVTIFF_VER_MAJOR, NVTIFF_VER_MINOR, NVTIFF_VER_PATCH);
  Canvas canvas;
  for (int i = 2; i + 1 < count; i += 2) {
    bench(arguments[i], arguments[i + 1], runs, canvas, stream);
    std::fflush(stdout);
  }
  return 0;
}
