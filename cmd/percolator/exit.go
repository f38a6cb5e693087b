package main

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/backup"
	"github.com/gopercolator/percolator/tso"
)

// The exit statuses of all commands.
const (
	exitOK          = 0
	exitFailure     = 1 // anything else
	exitUsage       = 2 // a flag, an argument or a file is wrong; trying again is useless
	exitUnavailable = 3 // the oracle or the store cannot be reached, or nobody leads; try again
	exitRecord      = 4 // the oracle's record is missing or damaged: see docs/ORACLE.md
	exitFindings    = 5 // the command worked, and what it checked is not as it should be
	exitConflict    = 6 // a conflict, a lock in the way, a value that is there already, or a commit with an unknown outcome
	exitNotFound    = 7 // what was asked for does not exist
)

const exitHelp = `Exit status: 0 success, 1 failure, 2 wrong usage, 3 oracle or store unavailable,
4 the oracle's record is missing or damaged, 5 a check found something, 6 conflict,
7 not found.`

// usageError is an error of whoever typed the command.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error {
	return usageError{fmt.Errorf(format, args...)}
}

// errFindings is what a command ends with that has printed what is wrong.
var errFindings = errors.New("not everything is as it should be")

// advise adds to an error of an oracle's store what the operator can do.
func advise(err error) error {
	switch {
	case errors.Is(err, tso.ErrNoRecord):
		return fmt.Errorf("%w (a new oracle: percolator init; one that has served: percolator tso raise --replace-damaged)", err)
	case errors.Is(err, tso.ErrCorrupt):
		return fmt.Errorf("%w (stop all servers, then: percolator tso raise --replace-damaged)", err)
	case status.Code(err) == codes.NotFound:
		return fmt.Errorf("%w (percolator init creates what is missing)", err)
	}
	return err
}

// exitCode returns the exit status that err stands for.
func exitCode(err error) int {
	var usage usageError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &usage):
		return exitUsage
	case errors.Is(err, tso.ErrCorrupt), errors.Is(err, tso.ErrNoRecord):
		return exitRecord
	case errors.Is(err, errFindings):
		return exitFindings
	case errors.Is(err, percolator.ErrConflict), errors.Is(err, percolator.ErrLocked), errors.Is(err, percolator.ErrOutcomeUnknown),
		errors.Is(err, percolator.ErrExists), errors.Is(err, percolator.ErrUnique),
		errors.Is(err, backup.ErrComplete), errors.Is(err, backup.ErrOtherPlan), errors.Is(err, admin.ErrNotEmpty), errors.Is(err, admin.ErrRestoring):
		return exitConflict
	case errors.Is(err, backup.ErrDamaged):
		return exitFindings
	case errors.Is(err, backup.ErrIncomplete):
		return exitNotFound
	case errors.Is(err, percolator.ErrNotFound):
		return exitNotFound
	case errors.Is(err, tso.ErrInvalidArgument), errors.Is(err, percolator.ErrInvalidArgument):
		return exitUsage
	case errors.Is(err, tso.ErrUnavailable), errors.Is(err, tso.ErrNotLeader), errors.Is(err, context.DeadlineExceeded):
		return exitUnavailable
	}
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded:
		return exitUnavailable
	}
	return exitFailure
}
