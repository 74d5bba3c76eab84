//! Large values: in the file alone, once they are there.

use std::sync::Arc;

use tidegate_core::session::SessionId;
use tidegate_core::time::Wall;

use super::Embedded;
use super::key::Key;
use super::state::{Blob, ms};
use crate::Call;
use crate::error::StoreError;

impl Embedded {
    pub(crate) async fn put_blob(
        &self,
        id: &SessionId,
        blob: &str,
        bytes: &[u8],
        until: Wall,
        _call: Call,
    ) -> Result<(), StoreError> {
        self.check_room()?;
        let kept = Blob {
            bytes: Some(Arc::from(bytes)),
            until_ms: ms(until),
        };
        self.with(|state, _| state.put_blob(id.tag(), blob, kept));
        Ok(())
    }

    pub(crate) async fn blob(
        &self,
        id: &SessionId,
        blob: &str,
        call: Call,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let here = self.with(|state, now| {
            let blob = state.blob(id.tag(), blob, now);
            blob.map(|blob| blob.bytes.clone())
        });
        match here {
            None => return Ok(None),
            Some(Some(bytes)) => return Ok(Some(bytes.to_vec())),
            Some(None) => {}
        }
        let key = Key::Blob(id.tag(), blob.to_owned());
        let shared = self.owner.shared.clone();
        let read = tokio::task::spawn_blocking(move || shared.file.blob(&key));
        match tokio::time::timeout(call.timeout, read).await {
            Err(_) => Err(StoreError::Timeout),
            Ok(Ok(Ok(bytes))) => Ok(bytes),
            Ok(Ok(Err(error))) => Err(StoreError::Broken(error.to_string())),
            Ok(Err(error)) => Err(StoreError::Broken(error.to_string())),
        }
    }

    pub(crate) async fn drop_blob(
        &self,
        id: &SessionId,
        blob: &str,
        _call: Call,
    ) -> Result<(), StoreError> {
        self.with(|state, _| state.take_blob(id.tag(), blob));
        Ok(())
    }
}
