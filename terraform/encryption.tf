# With a key of one's own, the services' agents have to be able to use it before the instances are created.

data "google_project" "this" {
  count      = var.kms_key == null ? 0 : 1
  project_id = var.project
}

locals {
  encrypting_services = var.kms_key == null ? [] : concat(["gcp-sa-bigtable"], var.oracle_store == "spanner" ? ["gcp-sa-spanner"] : [])
}

resource "google_kms_crypto_key_iam_member" "encryption" {
  for_each = toset(local.encrypting_services)

  crypto_key_id = var.kms_key
  role          = "roles/cloudkms.cryptoKeyEncrypterDecrypter"
  member        = "serviceAccount:service-${data.google_project.this[0].number}@${each.key}.iam.gserviceaccount.com"
}
