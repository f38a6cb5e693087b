package admin

import (
	"context"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/api/option"
	"iter"
	"time"
)

type Admin struct{ c *percolator.Client }

func New(c *percolator.Client) *Admin { return &Admin{c} }

func (a *Admin) AbandonRestore(ctx context.Context) error {
	return a.c.AbandonRestore(ctx)
}

func (a *Admin) Announce(ctx context.Context, w percolator.WorkerInfo, seen percolator.Workers) (percolator.WorkerInfo, error) {
	return a.c.Announce(ctx, w, seen)
}

func (a *Admin) AwaitWeak(ctx context.Context, ts tso.Timestamp) error {
	return a.c.AwaitWeak(ctx, ts)
}

func (a *Admin) BackfillIndex(ctx context.Context, table string, index string, opts percolator.BackfillOptions) (percolator.BackfillReport, error) {
	return a.c.BackfillIndex(ctx, table, index, opts)
}

func (a *Admin) BackfillObserver(ctx context.Context, table string, column string, observer string, opts percolator.ObserverOptions) (percolator.ObserverProgress, error) {
	return a.c.BackfillObserver(ctx, table, column, observer, opts)
}

func (a *Admin) BeginExport(ctx context.Context, ttl time.Duration, reason string, waiting func(time.Duration)) (percolator.Hold, tso.Timestamp, error) {
	return a.c.BeginExport(ctx, ttl, reason, waiting)
}

func (a *Admin) BeginRestore(ctx context.Context, id string, incomplete []string, waiting func(time.Duration)) (*percolator.Restore, error) {
	return a.c.BeginRestore(ctx, id, incomplete, waiting)
}

func (a *Admin) ClearNotification(ctx context.Context, cell percolator.Cell, upTo tso.Timestamp) error {
	return a.c.ClearNotification(ctx, cell, upTo)
}

func (a *Admin) Collection(ctx context.Context) (percolator.Collection, error) {
	return a.c.Collection(ctx)
}

func (a *Admin) CollectionBounds(ctx context.Context) (percolator.CollectionBounds, error) {
	return a.c.CollectionBounds(ctx)
}

func (a *Admin) DropParked(ctx context.Context, s percolator.Standing) error {
	return a.c.DropParked(ctx, s)
}

func (a *Admin) Due(w percolator.WorkerInfo, seen percolator.Workers) bool {
	return a.c.Due(w, seen)
}

func (a *Admin) EstimatedTime() (now tso.Timestamp, ok bool) {
	return a.c.EstimatedTime()
}

func (a *Admin) ExportRows(ctx context.Context, ts tso.Timestamp, table string, r percolator.Range) iter.Seq2[percolator.ExportedRow, error] {
	return a.c.ExportRows(ctx, ts, table, r)
}

func (a *Admin) ExportWeak(ctx context.Context, ts tso.Timestamp, table string, r percolator.Range) iter.Seq2[percolator.ExportedRow, error] {
	return a.c.ExportWeak(ctx, ts, table, r)
}

func (a *Admin) ExtendHold(ctx context.Context, h percolator.Hold, ttl time.Duration) (percolator.Hold, error) {
	return a.c.ExtendHold(ctx, h, ttl)
}

func (a *Admin) ForgetObserver(ctx context.Context, table string, column string, observer string, opts percolator.ObserverOptions) (percolator.ObserverProgress, error) {
	return a.c.ForgetObserver(ctx, table, column, observer, opts)
}

func (a *Admin) ForgetStandings(ctx context.Context, standings ...percolator.Standing) error {
	return a.c.ForgetStandings(ctx, standings...)
}

func (a *Admin) Holds(ctx context.Context) ([]percolator.Hold, error) {
	return a.c.Holds(ctx)
}

func (a *Admin) IncompleteIndexes(ctx context.Context, ts tso.Timestamp) (names []string, err error) {
	return a.c.IncompleteIndexes(ctx, ts)
}

func (a *Admin) InspectRow(ctx context.Context, table string, row string, opts percolator.InspectOptions) (percolator.RowInspection, error) {
	return a.c.InspectRow(ctx, table, row, opts)
}

func (a *Admin) InspectWorkers(ctx context.Context) (percolator.Workers, error) {
	return a.c.InspectWorkers(ctx)
}

func (a *Admin) ListLocks(ctx context.Context, table string, r percolator.Range, opts percolator.LockOptions) iter.Seq2[percolator.LockInspection, error] {
	return a.c.ListLocks(ctx, table, r, opts)
}

func (a *Admin) LoadPosition(ctx context.Context, name string) ([]byte, error) {
	return a.c.LoadPosition(ctx, name)
}

func (a *Admin) NewReporter(name string, interval time.Duration) (*percolator.Reporter, error) {
	return a.c.NewReporter(name, interval)
}

func (a *Admin) Notified(ctx context.Context, cell percolator.Cell) (bool, error) {
	return a.c.Notified(ctx, cell)
}

func (a *Admin) Oracle() tso.Oracle {
	return a.c.Oracle()
}

func (a *Admin) ReadPending(ctx context.Context, table string, r percolator.Range, most int) (rows []percolator.Pending, more bool, err error) {
	return a.c.ReadPending(ctx, table, r, most)
}

func (a *Admin) ReleaseHold(ctx context.Context, h percolator.Hold) error {
	return a.c.ReleaseHold(ctx, h)
}

func (a *Admin) Reports(ctx context.Context) ([]percolator.Report, error) {
	return a.c.Reports(ctx)
}

func (a *Admin) ResolveLock(ctx context.Context, l percolator.Lock) (percolator.Resolution, error) {
	return a.c.ResolveLock(ctx, l)
}

func (a *Admin) RetryParked(ctx context.Context, s percolator.Standing) error {
	return a.c.RetryParked(ctx, s)
}

func (a *Admin) SampleRowKeys(ctx context.Context, table string) ([]string, error) {
	return a.c.SampleRowKeys(ctx, table)
}

func (a *Admin) SaveLoadPosition(ctx context.Context, name string, former []byte, next []byte) error {
	return a.c.SaveLoadPosition(ctx, name, former, next)
}

func (a *Admin) ScanPending(ctx context.Context, table string, r percolator.Range) iter.Seq2[percolator.Pending, error] {
	return a.c.ScanPending(ctx, table, r)
}

func (a *Admin) SetBounds(ctx context.Context, seen percolator.Workers, next map[string]percolator.TableBounds) (bool, error) {
	return a.c.SetBounds(ctx, seen, next)
}

func (a *Admin) SetStandings(ctx context.Context, standings ...percolator.Standing) error {
	return a.c.SetStandings(ctx, standings...)
}

func (a *Admin) TakeHold(ctx context.Context, ts tso.Timestamp, ttl time.Duration, reason string) (percolator.Hold, error) {
	return a.c.TakeHold(ctx, ts, ttl, reason)
}

func (a *Admin) Telemetry() (metric.MeterProvider, trace.TracerProvider) {
	return a.c.Telemetry()
}

func (a *Admin) VerifyIndex(ctx context.Context, table string, index string, opts percolator.VerifyIndexOptions) (percolator.IndexReport, error) {
	return a.c.VerifyIndex(ctx, table, index, opts)
}

func (a *Admin) Withdraw(ctx context.Context, w percolator.WorkerInfo) error {
	return a.c.Withdraw(ctx, w)
}

func (a *Admin) Workers(ctx context.Context) (percolator.Workers, error) {
	return a.c.Workers(ctx)
}

func (a *Admin) WrittenSince(ctx context.Context, table string, ts tso.Timestamp) (bool, error) {
	return a.c.WrittenSince(ctx, table, ts)
}

type AckInspection = percolator.AckInspection

func ApplySchema(ctx context.Context, project string, instance string, appProfile string, s *percolator.Schema, opts ...option.ClientOption) error {
	return percolator.ApplySchema(ctx, project, instance, appProfile, s, opts...)
}

const BackfillDrain = percolator.BackfillDrain
const BackfillFill = percolator.BackfillFill

type BackfillOptions = percolator.BackfillOptions
type BackfillPhase = percolator.BackfillPhase
type BackfillProgress = percolator.BackfillProgress

const BackfillReady = percolator.BackfillReady

type BackfillReport = percolator.BackfillReport

const BackfillSweep = percolator.BackfillSweep
const BigtableTableMissing = percolator.BigtableTableMissing

type Collection = percolator.Collection
type CollectionBounds = percolator.CollectionBounds

const CollectionDone = percolator.CollectionDone
const CollectionDrain = percolator.CollectionDrain
const CollectionErase = percolator.CollectionErase

type CollectionPhase = percolator.CollectionPhase

const CollectionResolve = percolator.CollectionResolve

type Collector = percolator.Collector
type CollectorConfig = percolator.CollectorConfig
type ColumnInspection = percolator.ColumnInspection

func CreateMetaTable(ctx context.Context, project string, instance string, opts ...option.ClientOption) error {
	return percolator.CreateMetaTable(ctx, project, instance, opts...)
}

type DataInspection = percolator.DataInspection

func DecodeSchema(b []byte) (*percolator.Schema, error) {
	return percolator.DecodeSchema(b)
}

func EncodeSchema(s *percolator.Schema) []byte {
	return percolator.EncodeSchema(s)
}

var ErrNotEmpty = percolator.ErrNotEmpty
var ErrRestoring = percolator.ErrRestoring

type ExportKind = percolator.ExportKind
type ExportedCell = percolator.ExportedCell

const ExportedDelete = percolator.ExportedDelete
const ExportedPut = percolator.ExportedPut

type ExportedRow = percolator.ExportedRow

const ExportedWeak = percolator.ExportedWeak
const FamilyMissing = percolator.FamilyMissing

type Hold = percolator.Hold

const IndexAdded = percolator.IndexAdded
const IndexChanged = percolator.IndexChanged
const IndexCorrupt = percolator.IndexCorrupt

type IndexDamage = percolator.IndexDamage

const IndexDuplicate = percolator.IndexDuplicate

type IndexFinding = percolator.IndexFinding

const IndexMissing = percolator.IndexMissing
const IndexRemoved = percolator.IndexRemoved

type IndexReport = percolator.IndexReport

const IndexStale = percolator.IndexStale

type IndexState = percolator.IndexState

const IndexStray = percolator.IndexStray

type InspectOptions = percolator.InspectOptions

func LatencyBounds() []time.Duration {
	return percolator.LatencyBounds()
}

type LatencyCounts = percolator.LatencyCounts
type Lock = percolator.Lock

const LockAlive = percolator.LockAlive
const LockGone = percolator.LockGone

type LockInspection = percolator.LockInspection
type LockOptions = percolator.LockOptions

const LockRolledBack = percolator.LockRolledBack
const LockRolledForward = percolator.LockRolledForward

type LockState = percolator.LockState

const LockStateAlive = percolator.LockStateAlive
const LockStateCommitted = percolator.LockStateCommitted
const LockStateDead = percolator.LockStateDead
const LockStateRolledBack = percolator.LockStateRolledBack
const LockStateUndecodable = percolator.LockStateUndecodable
const MaxBoundBytes = percolator.MaxBoundBytes
const MaxBoundKeys = percolator.MaxBoundKeys
const MaxHoldReasonBytes = percolator.MaxHoldReasonBytes
const MaxHoldTTL = percolator.MaxHoldTTL
const MaxHolds = percolator.MaxHolds
const MaxInspectCells = percolator.MaxInspectCells
const MaxInspectColumns = percolator.MaxInspectColumns
const MaxInspectValueBytes = percolator.MaxInspectValueBytes
const MaxLoadName = percolator.MaxLoadName
const MaxLoadPosition = percolator.MaxLoadPosition
const MaxParkedReason = percolator.MaxParkedReason
const MaxPendingRows = percolator.MaxPendingRows
const MaxReportBytes = percolator.MaxReportBytes
const MaxReportInterval = percolator.MaxReportInterval
const MaxReports = percolator.MaxReports
const MaxWorkers = percolator.MaxWorkers

func NewCollector(c *percolator.Client, cfg percolator.CollectorConfig) (*percolator.Collector, error) {
	return percolator.NewCollector(c, cfg)
}

const ObservedAdded = percolator.ObservedAdded
const ObservedRemoved = percolator.ObservedRemoved

type ObserverOptions = percolator.ObserverOptions
type ObserverProgress = percolator.ObserverProgress
type ObserverReport = percolator.ObserverReport
type Pending = percolator.Pending

func PlanSchema(ctx context.Context, project string, instance string, appProfile string, s *percolator.Schema, opts ...option.ClientOption) (percolator.SchemaPlan, error) {
	return percolator.PlanSchema(ctx, project, instance, appProfile, s, opts...)
}

func PrepareRestore(ctx context.Context, project string, instance string, id string, s *percolator.Schema, opts ...option.ClientOption) error {
	return percolator.PrepareRestore(ctx, project, instance, id, s, opts...)
}

func ReadSchema(ctx context.Context, project string, instance string, appProfile string, opts ...option.ClientOption) (percolator.StoredSchema, error) {
	return percolator.ReadSchema(ctx, project, instance, appProfile, opts...)
}

const ReaderAbsent = percolator.ReaderAbsent
const ReaderCorrupt = percolator.ReaderCorrupt
const ReaderDeleted = percolator.ReaderDeleted

type ReaderState = percolator.ReaderState

const ReaderTooOld = percolator.ReaderTooOld
const ReaderUnread = percolator.ReaderUnread
const ReaderValue = percolator.ReaderValue

type ReaderView = percolator.ReaderView

const ReaderWaits = percolator.ReaderWaits

type Report = percolator.Report
type Reporter = percolator.Reporter
type Resolution = percolator.Resolution
type Restore = percolator.Restore
type RowInspection = percolator.RowInspection
type SchemaChange = percolator.SchemaChange
type SchemaChangeKind = percolator.SchemaChangeKind
type SchemaPlan = percolator.SchemaPlan

func ServedTimestamp(ctx context.Context, project string, instance string, appProfile string, opts ...option.ClientOption) (tso.Timestamp, error) {
	return percolator.ServedTimestamp(ctx, project, instance, appProfile, opts...)
}

const SessionEnded = percolator.SessionEnded
const SessionNone = percolator.SessionNone
const SessionOpen = percolator.SessionOpen

type SessionState = percolator.SessionState

const SessionUnknown = percolator.SessionUnknown

type Standing = percolator.Standing
type StoredSchema = percolator.StoredSchema

const TableAdded = percolator.TableAdded

type TableBounds = percolator.TableBounds

const TableRemoved = percolator.TableRemoved
const TimingChanged = percolator.TimingChanged

type UndecodableCell = percolator.UndecodableCell
type VerifyIndexOptions = percolator.VerifyIndexOptions
type VersionInspection = percolator.VersionInspection

const WeakAdded = percolator.WeakAdded
const WeakRemoved = percolator.WeakRemoved

type WorkerInfo = percolator.WorkerInfo
type WorkerReport = percolator.WorkerReport
type Workers = percolator.Workers
type WriteInspection = percolator.WriteInspection
