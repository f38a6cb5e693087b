package telemetry

import (
	"cmp"
	"context"
	"errors"
	"log/slog"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// Warn logs what has failed with its cause, and at level Debug with the error, whose text may name
// a row.
func Warn(log *slog.Logger, what string, err error, fields ...any) {
	log.Warn(what, append(fields[:len(fields):len(fields)], "cause", Cause(err))...)
	log.Debug(what, append(fields[:len(fields):len(fields)], "err", err)...)
}

// Cause names a failure without its text: by what this module calls it, and by gRPC's code where
// the store or the oracle has answered so; "" is none.
func Cause(err error) string {
	if err == nil {
		return ""
	}
	name := sentinelOf(err)
	switch code := status.Code(err); {
	case code == codes.Unknown || code == codes.OK:
		return cmp.Or(name, otherError)
	case name != "":
		return name + " (" + code.String() + ")"
	default:
		return code.String()
	}
}

// otherError is an error that is not this module's, as the conventions of OpenTelemetry call it.
const otherError = "_OTHER"

// sentinelOf names the sentinel that err wraps; "" is none.
func sentinelOf(err error) string {
	for _, known := range sentinels {
		if errors.Is(err, known.err) {
			return known.name
		}
	}
	return ""
}

var sentinels = []struct {
	err  error
	name string
}{
	{model.ErrOutcomeUnknown, "outcome_unknown"}, {model.ErrConflict, "conflict"}, {model.ErrLocked, "locked"}, {model.ErrSnapshotTooOld, "snapshot_too_old"},
	{model.ErrNotFound, "not_found"}, {model.ErrExists, "exists"}, {model.ErrUnique, "unique"}, {model.ErrSchemaMismatch, "schema_mismatch"},
	{model.ErrTooLarge, "too_large"}, {model.ErrInvalidArgument, "invalid_argument"}, {model.ErrTxnDone, "txn_done"}, {model.ErrCorrupt, "corrupt"},
	{model.ErrLeased, "leased"}, {model.ErrHeld, "held"},
	{tso.ErrUnavailable, "oracle_unavailable"}, {tso.ErrNotLeader, "oracle_unavailable"},
	{model.ErrClosed, "closed"}, {model.ErrImporting, "importing"}, {context.Canceled, "canceled"}, {context.DeadlineExceeded, "timeout"},
}
