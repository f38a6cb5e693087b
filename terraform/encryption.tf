# With a key of one's own, the services' agents have to be able to use it before anything is made
# with it. Each replica has a key of its own region.

data "google_project" "this" {
  count      = var.kms_key == null || var.service_agents != null ? 0 : 1
  project_id = var.project
}

locals {
  agents = {
    gcp-sa-bigtable      = "bigtableadmin.googleapis.com"
    gcp-sa-spanner       = "spanner.googleapis.com"
    gcp-sa-secretmanager = "secretmanager.googleapis.com"
    compute-system       = "compute.googleapis.com"
  }
  encrypting_services = var.kms_key == null ? [] : concat(
    ["gcp-sa-bigtable", "compute-system"],
    var.oracle_store == "spanner" ? ["gcp-sa-spanner"] : [],
    var.oracle_security == "mtls" ? ["gcp-sa-secretmanager"] : [],
  )
  key_grants = merge(
    { for agent in local.encrypting_services : agent => { agent = agent, key = var.kms_key } },
    { for end, r in var.replicas : "gcp-sa-bigtable ${end}" => { agent = "gcp-sa-bigtable", key = r.kms_key } if r.kms_key != null },
  )
}

resource "google_kms_crypto_key_iam_member" "encryption" {
  for_each = local.key_grants

  crypto_key_id = each.value.key
  role          = "roles/cloudkms.cryptoKeyEncrypterDecrypter"
  member = (
    var.service_agents != null ? var.service_agents[local.agents[each.value.agent]] :
    "serviceAccount:service-${data.google_project.this[0].number}@${each.value.agent}.iam.gserviceaccount.com"
  )
}

# A grant takes a minute or two to be known everywhere, and what is created before that is refused.
# Nothing says when it is known, so this waits. terraform_data is built into Terraform: no further
# provider is needed for it.
resource "terraform_data" "key_granted" {
  count = var.kms_key == null ? 0 : 1

  triggers_replace = { for name, grant in google_kms_crypto_key_iam_member.encryption : name => grant.id }

  provisioner "local-exec" {
    command = "sleep ${var.iam_wait}"
  }
}
