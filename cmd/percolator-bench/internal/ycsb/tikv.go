package ycsb

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pingcap/log"
	tikverr "github.com/tikv/client-go/v2/error"
	"github.com/tikv/client-go/v2/testutils"
	"github.com/tikv/client-go/v2/tikv"
	"github.com/tikv/client-go/v2/txnkv/transaction"
	"github.com/tikv/client-go/v2/txnkv/txnsnapshot"
	"go.uber.org/zap/zapcore"
)

// TiKV is TiKV's client on the server in memory that comes with it for tests. A record is one
// value, as in PingCAP's go-ycsb.
type TiKV struct {
	store *tikv.KVStore
}

// NewTiKV starts the server, in this process.
func NewTiKV() (*TiKV, error) {
	log.SetLevel(zapcore.FatalLevel) // what fails returns an error; the rest are conflicts
	client, cluster, pd, err := testutils.NewMockTiKV("", nil)
	if err != nil {
		return nil, err
	}
	testutils.BootstrapWithSingleStore(cluster)
	store, err := tikv.NewTestTiKVStore(client, pd, nil, nil, 0)
	return &TiKV{store}, err
}

// Close ends the server.
func (s *TiKV) Close() error { return s.store.Close() }

// Promise implements Store, as do the other methods.
func (s *TiKV) Promise() Promise {
	return Promise{Isolation: "snapshot", Atomic: "any keys"}
}

const (
	tikvRecords  = "r/"
	tikvAccounts = "a/"
	tikvPause    = 5 * time.Millisecond // the mean one before a transaction that met a conflict
)

// update makes an optimistic transaction, again after conflicts.
func (s *TiKV) update(ctx context.Context, f func(*transaction.KVTxn) error) error {
	for {
		tx, err := s.store.Begin()
		if err == nil {
			if err = f(tx); err == nil {
				err = tx.Commit(ctx)
			} else {
				err = errors.Join(err, tx.Rollback())
			}
		}
		if !tikvConflict(err) || ctx.Err() != nil {
			return err
		}
		time.Sleep(rand.N(2 * tikvPause))
	}
}

// tikvConflict tells whether a transaction was not committed as it met others.
func tikvConflict(err error) bool {
	_, retryable := errors.AsType[*tikverr.ErrRetryable](err)
	return retryable || tikverr.IsErrWriteConflict(err)
}

// view reads in one snapshot.
func (s *TiKV) view() (*txnsnapshot.KVSnapshot, error) {
	ts, err := s.store.CurrentTimestamp("global")
	return s.store.GetSnapshot(ts), err
}

func tikvEncode(r Record) (out []byte) {
	for _, v := range r {
		out = append(binary.AppendUvarint(out, uint64(len(v))), v...)
	}
	return out
}

func tikvDecode(b []byte) (r Record, err error) {
	for len(b) > 0 {
		n, prefix := binary.Uvarint(b)
		if prefix <= 0 || uint64(len(b)-prefix) < n {
			return nil, errors.New("a record is cut off")
		}
		end := prefix + int(n)
		r, b = append(r, b[prefix:end]), b[end:]
	}
	return r, nil
}

func (s *TiKV) Read(ctx context.Context, key string) (Record, error) {
	snap, err := s.view()
	if err != nil {
		return nil, err
	}
	v, err := snap.Get(ctx, []byte(tikvRecords+key))
	if err != nil {
		return nil, err
	}
	return tikvDecode(v)
}

// Update has to read the record: it is one value.
func (s *TiKV) Update(ctx context.Context, key string, field int, value []byte) error {
	_, err := s.Modify(ctx, key, field, value)
	return err
}

func (s *TiKV) Insert(ctx context.Context, key string, r Record) error {
	return s.update(ctx, func(tx *transaction.KVTxn) error { return tx.Set([]byte(tikvRecords+key), tikvEncode(r)) })
}

func (s *TiKV) Scan(_ context.Context, from string, most int) (found []Record, err error) {
	err = s.each(tikvRecords, from, func(v []byte) (bool, error) {
		r, err := tikvDecode(v)
		found = append(found, r)
		return len(found) < most, err
	})
	return found, err
}

// each calls f with the values of keys with a prefix, until f has enough.
func (s *TiKV) each(prefix, from string, f func(value []byte) (more bool, err error)) error {
	snap, err := s.view()
	if err != nil {
		return err
	}
	end := prefix[:len(prefix)-1] + string(prefix[len(prefix)-1]+1)
	rows, err := snap.Iter([]byte(prefix+from), []byte(end))
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Valid() {
		if more, err := f(rows.Value()); err != nil || !more {
			return err
		}
		if err := rows.Next(); err != nil {
			return err
		}
	}
	return nil
}

func (s *TiKV) Modify(ctx context.Context, key string, field int, value []byte) (before Record, err error) {
	err = s.update(ctx, func(tx *transaction.KVTxn) error {
		v, err := tx.Get(ctx, []byte(tikvRecords+key))
		if err != nil {
			return err
		}
		if before, err = tikvDecode(v); err != nil {
			return err
		}
		if field >= len(before) {
			return fmt.Errorf("field %d of %d", field, len(before))
		}
		after := append(Record(nil), before...)
		after[field] = value
		return tx.Set([]byte(tikvRecords+key), tikvEncode(after))
	})
	return before, err
}

func (s *TiKV) Deposit(ctx context.Context, account string, amount int64) error {
	return s.update(ctx, func(tx *transaction.KVTxn) error {
		return tx.Set([]byte(tikvAccounts+account), encodeBalance(amount))
	})
}

func (s *TiKV) Balance(ctx context.Context, account string) (int64, error) {
	snap, err := s.view()
	if err != nil {
		return 0, err
	}
	v, err := snap.Get(ctx, []byte(tikvAccounts+account))
	if err != nil {
		return 0, err
	}
	return decodeBalance(v)
}

func (s *TiKV) Transfer(ctx context.Context, from, to string, amount int64) error {
	a, b := tikvAccounts+from, tikvAccounts+to
	return s.update(ctx, func(tx *transaction.KVTxn) error {
		both, err := tx.BatchGet(ctx, [][]byte{[]byte(a), []byte(b)})
		if err != nil {
			return err
		}
		for key, change := range map[string]int64{a: -amount, b: amount} {
			n, err := decodeBalance(both[key])
			if err != nil {
				return err
			}
			if err := tx.Set([]byte(key), encodeBalance(n+change)); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *TiKV) Total(context.Context) (sum int64, accounts int, err error) {
	err = s.each(tikvAccounts, "", func(v []byte) (bool, error) {
		n, err := decodeBalance(v)
		sum, accounts = sum+n, accounts+1
		return true, err
	})
	return sum, accounts, err
}
