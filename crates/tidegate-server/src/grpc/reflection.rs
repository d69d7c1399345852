//! gRPC's reflection: tools such as grpcurl learn from it what can be called.

use tonic::service::RoutesBuilder;
use tonic_reflection::server::Builder;

/// The rate limit service and all that its messages are made of, as the crate of the messages has them.
const DESCRIPTORS: &[u8] = include_bytes!("rls.bin");

/// Adds it, as it is and as it was first.
pub(super) fn add_to(routes: &mut RoutesBuilder) {
    match (known().build_v1(), known().build_v1alpha()) {
        (Ok(v1), Ok(v1_alpha)) => {
            routes.add_service(v1).add_service(v1_alpha);
        }
        (Err(error), _) | (_, Err(error)) => tracing::error!(%error, "no reflection"),
    }
}

/// What can be called.
fn known() -> Builder<'static> {
    Builder::configure()
        .register_encoded_file_descriptor_set(DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_called_is_described_completely() {
        assert!(known().build_v1().is_ok() && known().build_v1alpha().is_ok());
    }
}
