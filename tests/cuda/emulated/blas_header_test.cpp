// What blas.h says of cuBLASLt, against the library's own header where it is found.
#if __has_include(<cublasLt.h>)
#include <cublasLt.h>
#include <gtest/gtest.h>

#include "engine/cuda/blas.h"

namespace tycho::cuda {
namespace {

TEST(CudaBlas, ItsNumbersAreThoseOfTheLibrarysHeader) {
  EXPECT_EQ(int(lt::kReal32), CUDA_R_32F);
  EXPECT_EQ(int(lt::kReal64), CUDA_R_64F);
  EXPECT_EQ(int(lt::kReal16), CUDA_R_16F);
  EXPECT_EQ(int(lt::kBrain16), CUDA_R_16BF);
  EXPECT_EQ(int(lt::kCompute32), CUBLAS_COMPUTE_32F);
  EXPECT_EQ(int(lt::kCompute64), CUBLAS_COMPUTE_64F);
  EXPECT_EQ(int(lt::kCompute32By16), CUBLAS_COMPUTE_32F_FAST_16BF);
  EXPECT_EQ(int(lt::kCompute32ByTf32), CUBLAS_COMPUTE_32F_FAST_TF32);
  EXPECT_EQ(int(lt::kTransA), CUBLASLT_MATMUL_DESC_TRANSA);
  EXPECT_EQ(int(lt::kTransB), CUBLASLT_MATMUL_DESC_TRANSB);
  EXPECT_EQ(int(lt::kEpilogue), CUBLASLT_MATMUL_DESC_EPILOGUE);
  EXPECT_EQ(int(lt::kBiasPointer), CUBLASLT_MATMUL_DESC_BIAS_POINTER);
  EXPECT_EQ(int(lt::kBatchCount), CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
  EXPECT_EQ(int(lt::kBatchStride), CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
  EXPECT_EQ(int(lt::kMaxWorkspace), CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
  EXPECT_EQ(int(lt::kReductionMask), CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
  EXPECT_EQ(int(lt::kAlignA), CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
  EXPECT_EQ(int(lt::kAlignA) + 3, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
  EXPECT_EQ(int(lt::kAuxPointer), CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER);
  EXPECT_EQ(int(lt::kAuxLd), CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD);
  EXPECT_EQ(int(lt::kWithBias), CUBLASLT_EPILOGUE_BIAS);
  EXPECT_EQ(int(lt::kWithRelu + lt::kWithBias), CUBLASLT_EPILOGUE_RELU_BIAS);
  EXPECT_EQ(int(lt::kWithGelu + lt::kWithBias), CUBLASLT_EPILOGUE_GELU_BIAS);
  EXPECT_EQ(int(lt::kWithGelu + lt::kWithAux + lt::kWithBias), CUBLASLT_EPILOGUE_GELU_AUX_BIAS);
  EXPECT_EQ(int(lt::kWithGeluGrad), CUBLASLT_EPILOGUE_DGELU);
  EXPECT_EQ(int(lt::kWithBiasGrad), CUBLASLT_EPILOGUE_BGRADB);
  EXPECT_EQ(int(lt::kReduceInComputeType), CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
  EXPECT_EQ(int(lt::kTransposed), CUBLAS_OP_T);
  EXPECT_EQ(sizeof(lt::Heuristic), sizeof(cublasLtMatmulHeuristicResult_t));
  EXPECT_EQ(sizeof(lt::Algorithm), sizeof(cublasLtMatmulAlgo_t));
}

}  // namespace
}  // namespace tycho::cuda
#endif
