// Softmax of rows in place, with the maximum and the sum of each row, which torch's own kernel does not tell.
#pragma once

#include <c10/util/BFloat16.h>

#include <cstdint>

namespace softnpu {

struct Rows {
  int64_t count, columns;
  const float* bias;  // [bias_rows, columns], added first; row i takes row i % bias_rows; may be null
  int64_t bias_rows;
  float *top, *total;  // of each row; a row of -inf alone has zeros, the lowest number and 0
};

void softmax_rows(float* scores, const Rows& rows);
void softmax_rows(c10::BFloat16* scores, const Rows& rows);

}  // namespace softnpu
