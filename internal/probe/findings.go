package probe

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/internal/health"
)

// Result is what became of a line.
type Result struct {
	Name     string
	Findings []health.Finding
	Sent     Cost // what it has cost
}

// runbook is where to read on about a failure that no command mends.
const runbook = "see docs/RUNBOOK.md#what-check---live-finds"

// failed is a failure with the command that mends it; "": none does.
func failed(remedy, format string, args ...any) health.Finding {
	return health.Found(health.Failed, cmp.Or(remedy, runbook), format, args...)
}

// unable is the finding of a line that could not be carried out.
func unable(err error) []health.Finding { return health.Cannot(err.Error()) }

// outOfReach reports whether err says nothing about what the store does with a request.
func outOfReach(err error) bool {
	return slices.Contains([]codes.Code{codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.Aborted, codes.ResourceExhausted,
		codes.PermissionDenied, codes.Unauthenticated, status.Code(errExhausted)}, status.Code(err)) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// stopped is the finding of a line that an error has ended: one of the store, unless it, or the way
// to it, was out of reach.
func stopped(err error) []health.Finding {
	if outOfReach(err) {
		return unable(err)
	}
	return []health.Finding{failed("", "it was stopped by: %v", err)}
}
