package cli

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/tso"
)

func TestExitCode(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, ExitOK},
		{errors.New("x"), ExitFailure},
		{Usagef("x"), ExitUsage},
		{fmt.Errorf("x: %w", Usagef("x")), ExitUsage},
		{fmt.Errorf("x: %w", tso.ErrInvalidArgument), ExitUsage},
		{fmt.Errorf("x: %w", tso.ErrUnavailable), ExitUnavailable},
		{&tso.NotLeaderError{}, ExitUnavailable},
		{fmt.Errorf("x: %w", context.DeadlineExceeded), ExitUnavailable},
		{status.Error(codes.Unavailable, "x"), ExitUnavailable},
		{status.Error(codes.PermissionDenied, "x"), ExitFailure},
		{fmt.Errorf("x: %w", tso.ErrCorrupt), ExitRecord},
		{Advise(tso.ErrNoRecord), ExitRecord},
		{Advise(status.Error(codes.NotFound, "x")), ExitFailure},
	} {
		if got := ExitCode(c.err); got != c.want {
			t.Errorf("%v: exit status %d, want %d", c.err, got, c.want)
		}
	}
}
