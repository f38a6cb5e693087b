package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/internal/emulatorhost"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/backup"
	"github.com/gopercolator/percolator/percolator/export"
	"github.com/gopercolator/percolator/percolator/watch"
	"github.com/gopercolator/percolator/tso"
)

// The exit statuses of all commands.
const (
	ExitOK          = 0
	ExitFailure     = 1 // anything else
	ExitUsage       = 2 // a flag, an argument or a file is wrong; trying again is useless
	ExitUnavailable = 3 // the oracle or the store cannot be reached, or no server leads; try again
	ExitRecord      = 4 // the oracle's record is missing or damaged: see docs/ORACLE.md
	ExitFindings    = 5 // the command worked, and what it checked is not as it should be
	ExitConflict    = 6 // a conflict, a lock in the way, an existing value, or an unknown outcome
	ExitNotFound    = 7 // what was asked for does not exist
)

const exitHelp = `Exit status: 0 success, 1 failure, 2 wrong usage, 3 oracle or store unavailable,
4 the oracle's record is missing or damaged, 5 a check found something, 6 conflict,
7 not found.`

// usageError is an error in the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// Usagef is an error in the command line.
func Usagef(format string, args ...any) error {
	return usageError{fmt.Errorf(format, args...)}
}

// errFindings is what a command ends with that has printed what it has found: findings.
var errFindings = errors.New("findings")

// Findings is errFindings in a sentence of the command's own.
func Findings(format string, args ...any) error {
	return findingsError{fmt.Errorf(format, args...)}
}

// FindingsOf is Findings of a number of things, which the format has in place of %s; nil if there
// are none.
func FindingsOf[N int | int64](n N, thing, format string) error {
	if n == 0 {
		return nil
	}
	return Findings(format, Counted(n, thing))
}

type findingsError struct{ error }

func (findingsError) Is(target error) bool { return target == errFindings }

// Advise adds to an error of an oracle's store what the operator can do.
func Advise(err error) error {
	switch {
	case errors.Is(err, tso.ErrNoRecord):
		return fmt.Errorf("%w (a new oracle: percolator init; one that has served: percolator tso raise --replace-damaged)", err)
	case errors.Is(err, tso.ErrCorrupt):
		return fmt.Errorf("%w (stop all servers, then: percolator tso raise --replace-damaged)", err)
	case status.Code(err) == codes.NotFound:
		return fmt.Errorf("%w (if this is the right instance, percolator init creates what is missing)", err)
	}
	return err
}

// exitErrors are the errors that have an exit status of their own. The first that fits counts.
var exitErrors = []struct {
	code int
	errs []error
}{
	{ExitRecord, []error{tso.ErrCorrupt, tso.ErrNoRecord}},
	{ExitFindings, []error{errFindings, admin.ErrRepairFindings}},
	{ExitConflict, []error{percolator.ErrConflict, percolator.ErrLocked, percolator.ErrOutcomeUnknown, percolator.ErrExists, percolator.ErrUnique}},
	{ExitConflict, []error{backup.ErrComplete, backup.ErrOtherPlan, admin.ErrNotEmpty, admin.ErrImporting, admin.ErrRestoring, admin.ErrRepairing, admin.ErrNotHeld, admin.ErrLeased, admin.ErrHeld, watch.ErrTakenOver, export.ErrComplete}},
	{ExitFindings, []error{backup.ErrDamaged}},
	{ExitNotFound, []error{backup.ErrIncomplete, percolator.ErrNotFound}},
	{ExitUsage, []error{tso.ErrInvalidArgument, percolator.ErrInvalidArgument, emulatorhost.ErrAddress}},
	{ExitUnavailable, []error{tso.ErrUnavailable, tso.ErrNotLeader, admin.ErrOracleBehind, emulatorhost.ErrNone, context.DeadlineExceeded}},
}

// ExitCode returns the exit status that err stands for.
func ExitCode(err error) int {
	if err == nil {
		return ExitOK
	}
	if _, usage := errors.AsType[usageError](err); usage {
		return ExitUsage
	}
	for _, e := range exitErrors {
		if slices.ContainsFunc(e.errs, func(target error) bool { return errors.Is(err, target) }) {
			return e.code
		}
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return ExitUnavailable
	}
	if code := status.Code(err); code == codes.Unavailable || code == codes.DeadlineExceeded {
		return ExitUnavailable
	}
	return ExitFailure
}
