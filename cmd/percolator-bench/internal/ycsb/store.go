package ycsb

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"
)

// Store is what workloads run on. Its methods are safe for concurrent use; each makes one
// transaction, again after a conflict, or as many single requests as it takes where there are none.
type Store interface {
	Promise() Promise

	Read(ctx context.Context, key string) (Record, error)
	Update(ctx context.Context, key string, field int, value []byte) error
	Insert(ctx context.Context, key string, r Record) error
	Scan(ctx context.Context, from string, most int) ([]Record, error)
	Modify(ctx context.Context, key string, field int, value []byte) (Record, error)

	Deposit(ctx context.Context, account string, amount int64) error // opens the account
	Balance(ctx context.Context, account string) (int64, error)
	Transfer(ctx context.Context, from, to string, amount int64) error
	Total(ctx context.Context) (sum int64, accounts int, err error) // of all accounts
}

// Promise is what a store says of its operations.
type Promise struct {
	Isolation string
	Atomic    string // what is atomic
}

// OpeningBalance is what each account has at first.
const OpeningBalance = 1000

// Load fills a store.
func Load(ctx context.Context, s Store, d *Data, callers int) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(callers)
	author := NewCaller(Workloads()[0], d, s, 0)
	for i := range max(d.Records, d.Accounts) {
		key, record := Key(int64(i)), author.Record()
		group.Go(func() (err error) {
			if i < d.Records {
				err = s.Insert(ctx, key, record)
			}
			if i < d.Accounts {
				err = errors.Join(err, s.Deposit(ctx, key, OpeningBalance))
			}
			return err
		})
	}
	return group.Wait()
}

// Score is YCSB+T's anomaly score of a closed economy: by how much its sum differs from what it
// was, for each operation.
func Score(ctx context.Context, s Store, accounts int, operations int64) (float64, error) {
	sum, found, err := s.Total(ctx)
	if err == nil && found != accounts {
		err = fmt.Errorf("%d accounts of %d", found, accounts)
	}
	off := float64(sum - int64(accounts)*OpeningBalance)
	return math.Abs(off) / float64(max(operations, 1)), err
}

// Names that stores have in common.
const (
	recordTable   = "records"
	accountTable  = "accounts"
	balanceColumn = "balance"
	fieldPrefix   = "field"
)

func fieldName(i int) string { return fieldPrefix + strconv.Itoa(i) }

// fieldNumber is the opposite of fieldName.
func fieldNumber(name string) (int, error) {
	return strconv.Atoi(strings.TrimPrefix(name, fieldPrefix))
}

func fieldNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fieldName(i)
	}
	return names
}

var errNoAccount = errors.New("there is no such account")

func encodeBalance(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

func decodeBalance(b []byte) (int64, error) {
	if len(b) != 8 {
		return 0, fmt.Errorf("a balance of %d bytes", len(b))
	}
	return int64(binary.BigEndian.Uint64(b)), nil
}
