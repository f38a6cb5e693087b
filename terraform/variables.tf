# Where and what.

variable "project" {
  description = "Project that holds everything."
  type        = string
}

variable "region" {
  description = "Region of the Bigtable cluster, the Spanner instance and the oracle's servers. They talk to each other all the time: one region."
  type        = string
}

variable "name" {
  description = "Id of the Bigtable instance, and the beginning of all other names. 6 to 23 lower-case letters, digits and hyphens."
  type        = string
  default     = "percolator"

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{4,21}[a-z0-9]$", var.name))
    error_message = "6 to 23 lower-case letters, digits and hyphens, a letter first, no hyphen last: ids of service accounts begin with it."
  }
}

variable "schema_file" {
  description = "Path of the schema file, the one that `percolator schema apply` is given: its tables are created here."
  type        = string
}

variable "labels" {
  description = "Labels of everything that can have labels."
  type        = map(string)
  default     = {}
}

# Protection and encryption.

variable "deletion_protection" {
  description = "Whether instance, tables, and the oracle's database are protected against deletion, by terraform and by everybody else. Set it to false, and apply, before a destroy."
  type        = bool
  default     = true
}

variable "kms_key" {
  description = "Cloud KMS key of the region for Bigtable, Spanner, the secrets and the disks of the oracle's servers, projects/P/locations/REGION/keyRings/R/cryptoKeys/K. null: Google's keys. It cannot be changed later without a new instance."
  type        = string
  default     = null

  validation {
    condition     = var.kms_key == null || can(regex("^projects/[^/]+/locations/${var.region}/keyRings/[^/]+/cryptoKeys/[^/]+$", var.kms_key))
    error_message = "The key has to be projects/P/locations/REGION/keyRings/R/cryptoKeys/K, in the region of the cluster."
  }
}

variable "service_agents" {
  description = "Service agents of Bigtable, Spanner, Secret Manager and Compute Engine that are to use kms_key, by API: the output members of modules/service_agents, which makes them. null: they exist, because the project has used these services before."
  type        = map(string)
  default     = null

  validation {
    condition     = var.service_agents == null || length(setsubtract(["bigtableadmin.googleapis.com", "spanner.googleapis.com", "secretmanager.googleapis.com", "compute.googleapis.com"], keys(coalesce(var.service_agents, {})))) == 0
    error_message = "An agent is missing: take the output members of modules/service_agents."
  }
}

variable "iam_wait" {
  description = "Seconds between the grants on kms_key and the first instance that uses it: Google takes that long to make a grant known. The machine that applies needs a command sleep."
  type        = number
  default     = 120

  validation {
    condition     = var.iam_wait >= 0 && floor(var.iam_wait) == var.iam_wait
    error_message = "Whole seconds, 0 or more."
  }
}

# Bigtable.

variable "zone" {
  description = "Zone of the first Bigtable cluster, NAME-c1. A conditional mutation is atomic in one cluster only, so there is never a second one for transactions."
  type        = string

  validation {
    condition     = startswith(var.zone, "${var.region}-")
    error_message = "The zone is not in the region."
  }
}

variable "replicas" {
  description = "Replica clusters for the loss of the first one, by the end of their names: { c2 = { zone = \"europe-north1-a\" } } is NAME-c2. Each has its own kms_key where the first has one, and min_nodes and max_nodes unless they are the first one's. No app profile routes to them. Every cluster that the instance has belongs here: an apply deletes the others."
  type        = map(object({ zone = string, kms_key = optional(string), min_nodes = optional(number), max_nodes = optional(number) }))
  default     = {}
}

variable "failed_over_to" {
  description = "The replica that took over from the first cluster, by its key in replicas: set it before the first apply after a failover. The configuration then has no NAME-c1, and both app profiles route to this one. null: no failover."
  type        = string
  default     = null
}

variable "edition" {
  description = "Edition of the Bigtable instance, ENTERPRISE or ENTERPRISE_PLUS. null: Bigtable's default, ENTERPRISE. Nothing here needs ENTERPRISE_PLUS."
  type        = string
  default     = null

  validation {
    condition     = var.edition == null || contains(["ENTERPRISE", "ENTERPRISE_PLUS"], coalesce(var.edition, "ENTERPRISE"))
    error_message = "ENTERPRISE or ENTERPRISE_PLUS."
  }
}

variable "tags" {
  description = "Resource Manager tags of the Bigtable instance, which policies of an organization may ask for: { \"tagKeys/1\" = \"tagValues/2\" }. Set them at the first apply: Bigtable takes them when it creates the instance. null: none."
  type        = map(string)
  default     = null
}

variable "min_nodes" {
  description = "Fewest nodes that autoscaling keeps."
  type        = number
  default     = 1

  validation {
    condition     = var.min_nodes >= 1 && floor(var.min_nodes) == var.min_nodes
    error_message = "At least 1 node."
  }
}

variable "max_nodes" {
  description = "Most nodes that autoscaling adds; what bounds the bill."
  type        = number
  default     = 3

  validation {
    condition     = var.max_nodes >= var.min_nodes && var.max_nodes <= 10 * var.min_nodes && floor(var.max_nodes) == var.max_nodes
    error_message = "From min_nodes to ten times as many, which is as far as Bigtable scales by itself."
  }
}

variable "cpu_target" {
  description = "CPU load, in percent, at which autoscaling adds nodes. Lower leaves room for bursts, which transactions feel as latency."
  type        = number
  default     = 60

  validation {
    condition     = var.cpu_target >= 10 && var.cpu_target <= 80
    error_message = "Bigtable takes 10 to 80."
  }
}

variable "storage_target" {
  description = "GiB of a node at which autoscaling adds nodes. A node with SSD holds 5120, and a cluster that is full refuses reads as well as writes."
  type        = number
  default     = 2560

  validation {
    condition     = var.storage_target >= 2560 && var.storage_target <= 5120 && floor(var.storage_target) == var.storage_target
    error_message = "Bigtable takes 2560 to 5120 with SSD."
  }
}

variable "backup_days" {
  description = "Days for which Bigtable keeps the backup that it makes of every table once a day. 0: none. They are for a lost cluster or table; docs/DISASTER.md says what else a restore takes."
  type        = number
  default     = 7

  validation {
    condition     = var.backup_days == 0 || var.backup_days >= 3 && var.backup_days <= 90 && floor(var.backup_days) == var.backup_days
    error_message = "0, or 3 to 90, which is what Bigtable takes."
  }
}

# The oracle.

variable "oracle_store" {
  description = "Where the oracle keeps its record: spanner, or bigtable for small set-ups, whose failover to another cluster has to be treated as a loss of data."
  type        = string
  default     = "spanner"

  validation {
    condition     = contains(["spanner", "bigtable"], var.oracle_store)
    error_message = "spanner or bigtable."
  }
}

variable "spanner_processing_units" {
  description = "Processing units of the Spanner instance. The oracle writes about once a second, so 100, the least there is, is plenty."
  type        = number
  default     = 100

  validation {
    condition     = var.spanner_processing_units >= 100 && (var.spanner_processing_units < 1000 ? var.spanner_processing_units % 100 == 0 : var.spanner_processing_units % 1000 == 0)
    error_message = "100 to 900 in steps of 100, or thousands."
  }
}

variable "oracle_zones" {
  description = "Zones of the oracle's servers, one server each. Two or more, and another takes over when the leader's zone fails."
  type        = list(string)

  validation {
    condition     = length(var.oracle_zones) >= 1 && length(distinct(var.oracle_zones)) == length(var.oracle_zones)
    error_message = "At least one zone, none of them twice."
  }
  validation {
    condition     = alltrue([for z in var.oracle_zones : startswith(z, "${var.region}-")])
    error_message = "Every zone has to be in the region."
  }
}

variable "oracle_image" {
  description = "Container image of the oracle's servers, with its digest. null: no servers yet, for the first apply, before there is an image."
  type        = string
  default     = null

  validation {
    condition     = var.oracle_image == null || can(regex("@sha256:[0-9a-f]{64}$", var.oracle_image))
    error_message = "Name the image by its digest, …@sha256:…: a tag that moves would be rolled out by the next machine that restarts."
  }
}

variable "oracle_image_repository" {
  description = "Artifact Registry repository of the image, which the oracle may read. null: the image is public, or access is granted elsewhere."
  type        = object({ project = string, location = string, name = string })
  default     = null
}

variable "oracle_security" {
  description = "How the connections of clients are secured: mtls, with certificates from Secret Manager, or alts, Google Cloud's own, without certificates."
  type        = string
  default     = "mtls"

  validation {
    condition     = contains(["mtls", "alts"], var.oracle_security)
    error_message = "mtls or alts. There is no plaintext: whoever can answer in the oracle's place can corrupt data."
  }
}

variable "oracle_server_name" {
  description = "Name in the servers' certificates, for mtls. Clients check it in place of the address."
  type        = string
  default     = "tso.percolator.internal"
}

variable "oracle_machine_type" {
  description = "Machine type of the oracle's servers. Two virtual CPUs; a shared core that is throttled loses the lease."
  type        = string
  default     = "e2-standard-2"

  validation {
    condition     = !can(regex("^(f1-|g1-|e2-(micro|small|medium)$)", var.oracle_machine_type))
    error_message = "Not a machine with a shared core: it stands still when its burst is used up, and the lease with it."
  }
}

variable "oracle_boot_image" {
  description = "Boot image of the oracle's servers: a family or an image of Container-Optimized OS."
  type        = string
  default     = "projects/cos-cloud/global/images/family/cos-stable"
}

variable "metrics_collector_image" {
  description = "Image of an OpenTelemetry collector with the googlemanagedprometheus exporter, which carries the oracle's metrics to Cloud Monitoring. null: none, and the alerts on the oracle need another way for its metrics."
  type        = string
  default     = null
}

# The network.

variable "network" {
  description = "VPC network of the oracle's servers and of the workers, as its self link or projects/P/global/networks/N."
  type        = string
}

variable "subnetwork" {
  description = "Subnetwork of the region with Private Google Access; the servers have no public addresses."
  type        = string
}

variable "network_project" {
  description = "Project of the network, if it is a Shared VPC: the firewall rules are made there. null: project."
  type        = string
  default     = null
}

variable "client_tags" {
  description = "Network tags of the machines that may call the oracle: those of the workers."
  type        = list(string)
  default     = ["percolator-worker"]

  validation {
    condition     = length(var.client_tags) + length(var.client_ranges) + length(var.client_service_accounts) >= 1
    error_message = "At least one tag, range or service account: without any, nobody reaches the oracle, and everybody waits for timestamps."
  }
}

variable "client_ranges" {
  description = "Addresses that may call the oracle, in CIDR notation: the ranges of GKE's pods, which have no tags."
  type        = list(string)
  default     = []

  validation {
    condition     = alltrue([for r in var.client_ranges : try(tonumber(split("/", r)[1]) >= 8 && cidrhost(r, 0) != "", false)])
    error_message = "Ranges in CIDR notation, a /8 or smaller: not everybody."
  }
}

variable "client_service_accounts" {
  description = "E-mail addresses of service accounts whose machines may call the oracle, at most 10. GKE's pods are not machines: client_ranges names them."
  type        = list(string)
  default     = []

  validation {
    condition     = length(var.client_service_accounts) <= 10 && alltrue([for a in var.client_service_accounts : can(regex("^[^:@]+@[^:@]+$", a))])
    error_message = "At most 10 e-mail addresses, without serviceAccount: before them."
  }
}

# Who may do what.

variable "worker_tables" {
  description = "Tables that the service account worker reads and writes, each with its indexes: names of the schema file, or [\"*\"] for all. A worker that lacks a table must neither collect nor sweep (DisableCollection, and SweepInterval: -1, in observers.Config) and cannot resolve locks whose primary is there."
  type        = list(string)
  default     = ["*"]
}

variable "worker_members" {
  description = "Further members (serviceAccount:…, group:…) with a worker's rights, and the tables they have them on: { \"serviceAccount:a@b\" = [\"documents\"], \"group:c@d\" = [\"*\"] }. All of them write percolator_meta."
  type        = map(list(string))
  default     = {}
}

variable "reader_members" {
  description = "Members that may read, and the tables they may read, in the form of worker_members; they write nothing. They cannot resolve the locks of dead transactions that they meet."
  type        = map(list(string))
  default     = {}
}

variable "operator_members" {
  description = "Members that may inspect and repair: the rights of a worker on every table, of `percolator check`, and to look at the oracle's database."
  type        = list(string)
  default     = []
}

variable "schema_members" {
  description = "Members that may act as the service account schema, for `percolator init` and `schema apply`."
  type        = list(string)
  default     = []

  validation {
    condition = alltrue([
      for m in concat(keys(var.worker_members), keys(var.reader_members), var.operator_members, var.schema_members) :
      can(regex("^(user|group|serviceAccount|domain|principal|principalSet):.", m))
    ])
    error_message = "A member is user:…, group:…, serviceAccount:…, domain:…, principal:… or principalSet:…. Nobody in general: no allUsers, no allAuthenticatedUsers."
  }
}

# Alerts.

variable "alerts" {
  description = "Whether alert policies are created."
  type        = bool
  default     = true
}

variable "notification_channels" {
  description = "Notification channels of the alert policies, projects/P/notificationChannels/N."
  type        = list(string)
  default     = []
}
