package retry

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/percolator/model"
)

// WithContext adds the caller's context error to err once the context has ended, so that
// errors.Is(err, context.Canceled) and errors.Is(err, context.DeadlineExceeded) hold. gRPC's status
// errors do not match them.
func WithContext(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil || errors.Is(err, ctx.Err()) {
		return err
	}
	return fmt.Errorf("%w: %w", err, ctx.Err())
}

// Ambiguous reports whether the store may have applied a CheckAndMutateRow or MutateRow that failed
// with err (I17). Every other error is a definite refusal by the server.
func Ambiguous(err error) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	// The table or a family is missing, whichever code says so.
	if errors.Is(err, model.ErrSchemaMismatch) {
		return false
	}
	switch status.Code(err) {
	case codes.DeadlineExceeded, codes.Unavailable, codes.Canceled, codes.Aborted, codes.Internal, codes.Unknown:
		return true
	}
	_, slow := SlowDown(err)
	return slow
}

// CheckContext refuses a nil context, which would panic further down.
func CheckContext(ctx context.Context) error {
	if ctx == nil {
		return fmt.Errorf("percolator: %w: the context is nil", model.ErrInvalidArgument)
	}
	return nil
}

// SlowDown reports whether the server has more to do than it can, and how long it says to wait: 0
// if it leaves that open. A message that is larger than gRPC takes has the same code, and no time
// helps.
func SlowDown(err error) (wait time.Duration, asked bool) {
	if err == nil {
		return 0, false
	}
	st := status.Convert(err)
	for _, d := range st.Details() {
		if info, ok := d.(*errdetails.RetryInfo); ok {
			wait, asked = max(wait, info.GetRetryDelay().AsDuration()), true
		}
	}
	return wait, asked || st.Code() == codes.ResourceExhausted && !strings.Contains(st.Message(), "larger than max")
}
