package tso

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/tso/tsopb"
)

// statusCodes are the errors that clients tell apart, besides NotLeaderError.
var statusCodes = []struct {
	err  error
	code codes.Code
}{
	{errSessionEnded, codes.NotFound},
	{ErrInvalidArgument, codes.InvalidArgument},
	{ErrLimit, codes.ResourceExhausted},
	{ErrUnsupported, codes.Unimplemented},
	{ErrExhausted, codes.OutOfRange},
	{ErrCorrupt, codes.DataLoss},
}

// withStatus makes gRPC statuses of the errors of the oracle's own services.
func withStatus(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	resp, err := handle(ctx, req)
	if err != nil && strings.HasPrefix(info.FullMethod, "/percolator.tso.v1.") {
		return nil, toStatus(err)
	}
	return resp, err
}

// toStatus makes a gRPC status of an error.
func toStatus(err error) error {
	var follower *NotLeaderError
	if errors.As(err, &follower) {
		st := status.New(codes.FailedPrecondition, err.Error())
		if detailed, err := st.WithDetails(&tsopb.NotLeader{Address: follower.Leader}); err == nil {
			st = detailed
		}
		return st.Err()
	}
	if !errors.Is(err, ErrUnavailable) { // which may come with an error of the store
		// A proxy's answer looks alike, so clients do not tell it apart.
		if errors.Is(err, errNotOwner) {
			return status.Error(codes.PermissionDenied, err.Error())
		}
		for _, known := range statusCodes {
			if errors.Is(err, known.err) {
				return status.Error(known.code, err.Error())
			}
		}
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return status.FromContextError(err).Err()
	}
	return status.Error(codes.Unavailable, err.Error())
}

// fromStatus is the inverse of toStatus for errors that another server, or a retry, would answer as
// well. It returns nil for others.
func fromStatus(err error) error {
	code := status.Code(err)
	for _, known := range statusCodes {
		if code == known.code {
			return fmt.Errorf("%w: %w", known.err, err)
		}
	}
	return nil
}
