package settle

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// adoptLock is the name of the advisory lock of adopters: no row of a table is called so.
const adoptLock = 0x6a6f75726e616c00

// elected reports whether no other worker adopts, as far as the oracle knows.
func (a *Adopter) elected(ctx context.Context) bool {
	if time.Now().Before(a.aside) {
		return false
	}
	if a.locks == nil {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	locked, err := a.locks.LockRows(ctx, a.holder, adoptTTL, []uint64{adoptLock})
	return err != nil || locked == 1
}

// failed has an adopter stand aside that has no right to what it adopts: another one may have it.
func (a *Adopter) failed(ctx context.Context, err error) {
	log, why := a.Looker.Config.Logger, denied(err)
	if why == nil {
		log.Debug("journal: an adoption failed, and is repeated", "err", err)
		return
	}
	if a.aside.IsZero() {
		log.Warn("journal: this worker lacks a right to adopt what clients that died have left, and stands aside for another one", "reason", why.Message())
	}
	a.aside = time.Now().Add(standAside)
	a.resign(ctx)
}

// denied is the first refusal of access among the errors that err wraps; nil: there is none.
func denied(err error) *status.Status {
	switch e := err.(type) {
	case interface{ GRPCStatus() *status.Status }:
		if s := e.GRPCStatus(); s.Code() == codes.PermissionDenied {
			return s
		}
	case interface{ Unwrap() error }:
		return denied(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, err := range e.Unwrap() {
			if s := denied(err); s != nil {
				return s
			}
		}
	}
	return nil
}

// resign gives the lock up.
func (a *Adopter) resign(ctx context.Context) {
	if a.locks != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = a.locks.UnlockRows(ctx, a.holder, []uint64{adoptLock}) // else it runs out
	}
}
